// SPDX-License-Identifier: Apache-2.0
// PyTorch's pluggable allocator, with what its plain interface lacks: OutOfMemoryError, cacheInfo, pools and what lives
// in them, statistics, snapshots, and tensors sent to other processes by tokens.
//
// `python -m gpumem torch-extension` compiles this file for the torch that is installed, and gpumem.torch.install()
// loads it by ctypes. Without it all tensors come from gpumemd as well. The functions of libgpumem-client are those of
// the copy that Python has loaded, so nothing is linked.
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gpumem-adapters.h>
#include <gpumem.h>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

// The functions that are called, by their names in libgpumem-client.
#define FUNCTIONS(F)                  \
        F(gpumem_alloc)               \
        F(gpumem_attach)              \
        F(gpumem_describe)            \
        F(gpumem_detach)              \
        F(gpumem_get_figures)         \
        F(gpumem_get_stats)           \
        F(gpumem_last_refusal)        \
        F(gpumem_pressure)            \
        F(gpumem_reset_peaks)         \
        F(gpumem_share)               \
        F(gpumem_strerror)            \
        F(gpumem_token_format)        \
        F(gpumem_token_parse)         \
        F(gpumem_torch_base)          \
        F(gpumem_torch_empty_cache)   \
        F(gpumem_torch_free)          \
        F(gpumem_torch_pool_alloc)    \
        F(gpumem_torch_record_stream) \
        F(gpumem_torch_set_fraction)

struct {
#define MEMBER(name) decltype(&::name) name;
        FUNCTIONS(MEMBER)
#undef MEMBER
} library;

// Of gpumem_alloc: GPUMEM_SHAREABLE and GPUMEM_REGISTERED, where this thread's allocations take blocks of their own.
thread_local uint32_t own_block_flags;

constexpr char handle_start[] = "gpumem:"; // of what travels in place of a CUDA IPC handle
constexpr size_t rounded_to = 512;

std::string size_text(uint64_t n_bytes)
{
        const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
        double size = static_cast<double>(n_bytes);
        char text[40];
        int unit = 0;
        for (; size >= 1024 && unit < 4; unit++)
                size /= 1024;
        (void)std::snprintf(text, sizeof(text), unit ? "%.2f %s" : "%.0f %s", size, units[unit]);
        return text;
}

bool lacks_memory(int code)
{
        return code == GPUMEM_E_REFUSED || code == GPUMEM_E_LIMIT || code == GPUMEM_E_TOO_LARGE ||
               code == GPUMEM_E_DEVICE_FULL || code == GPUMEM_E_TIMED_OUT;
}

gpumem_refusal last_refusal()
{
        gpumem_refusal refusal{};
        refusal.struct_size = sizeof(refusal);
        if (library.gpumem_last_refusal(nullptr, &refusal))
                refusal.code = 0;
        return refusal;
}

std::string reason(int code)
{
        const gpumem_refusal refusal = last_refusal();
        return refusal.code == code ? refusal.text : library.gpumem_strerror(code);
}

gpumem_stats stats_of(DeviceIndex device)
{
        gpumem_stats stats{};
        stats.struct_size = sizeof(stats);
        if (library.gpumem_get_stats(nullptr, GPUMEM_DEVICE, device, &stats))
                return gpumem_stats{};
        return stats;
}

// A figure of gpumem_get_figures; 0 if it is not said.
uint64_t figure(DeviceIndex device, const char *name)
{
        const char *names[64];
        uint64_t values[64];
        size_t n = 0;
        if (library.gpumem_get_figures(nullptr, GPUMEM_DEVICE, device, names, values, 64, &n))
                return 0;
        for (size_t i = 0; i < n && i < 64; i++) {
                if (!std::strcmp(names[i], name))
                        return values[i];
        }
        return 0;
}

void *allocate_own_block(size_t n_bytes, int device, void *stream)
{
        gpumem_request request{};
        void *pointer = nullptr;
        request.struct_size = sizeof(request);
        request.kind = GPUMEM_DEVICE;
        request.place = device;
        request.stream = stream;
        request.n_bytes = n_bytes;
        request.flags = GPUMEM_AT_PLACE | GPUMEM_PRIMARY | own_block_flags;
        return library.gpumem_alloc(nullptr, &request, &pointer) ? nullptr : pointer;
}

using Stat = c10::CachingAllocator::Stat;
using Stats = c10::CachingDeviceAllocator::DeviceStats;
using StatArray = c10::CachingAllocator::StatArray;

// Torch has figures of all allocations, of small and of large ones. Small and large ones are alike here.
Stat &all(StatArray &stats)
{
        return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

void count(Stats &stats, size_t n_bytes, void (Stat::*change)(size_t))
{
        const size_t n_rounded = (n_bytes + rounded_to - 1) / rounded_to * rounded_to;
        for (StatArray *number : {&stats.allocation, &stats.active})
                (all(*number).*change)(1);
        for (StatArray *bytes : {&stats.allocated_bytes, &stats.active_bytes})
                (all(*bytes).*change)(n_rounded);
        (all(stats.requested_bytes).*change)(n_bytes);
}

template <class Do> void each_counted(Stats &stats, Do change)
{
        for (StatArray *counted : {&stats.allocation, &stats.active, &stats.allocated_bytes,
                                   &stats.active_bytes, &stats.requested_bytes})
                change(all(*counted));
}

// An open pool: what is allocated in the streams that it accepts is its own.
struct OpenPool {
        DeviceIndex device;
        MempoolId_t id;
        std::function<bool(cudaStream_t)> accepts;
};

using Base = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

class Allocator final : public Base {
public:
        Allocator()
                : Base([this](size_t n, int device,
                              cudaStream_t stream) { return make(n, device, stream); },
                       [this](void *pointer, size_t n, int device, cudaStream_t stream) {
                               end(pointer, n, device, stream);
                       })
        {
                set_reset_fn(library.gpumem_torch_empty_cache);
                set_memory_fraction_fn(library.gpumem_torch_set_fraction);
                set_base_alloc_fn(library.gpumem_torch_base);
                set_record_stream_fn([](void *pointer, cudaStream_t stream) {
                        library.gpumem_torch_record_stream(pointer, stream);
                });
        }

        std::string name() override { return "gpumem"; }

        void setMemoryFraction(double fraction, DeviceIndex device) override
        {
                Base::setMemoryFraction(fraction, device);
                const std::lock_guard<std::mutex> lock(mutex_);
                fractions_[device] = fraction;
        }

        double getMemoryFraction(DeviceIndex device) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                const auto found = fractions_.find(device);
                return found == fractions_.end() ? 1.0 : found->second;
        }

        // cuDNN's search asks how large a workspace it may try.
        void cacheInfo(DeviceIndex device, size_t *largest_block) override
        {
                *largest_block = figure(device, "available_bytes");
        }

        bool isHistoryEnabled() override { return false; }

        Stats getDeviceStats(DeviceIndex device) override
        {
                const gpumem_stats held = stats_of(device);
                const auto n_pressures = static_cast<int64_t>(library.gpumem_pressure(nullptr));
                const std::lock_guard<std::mutex> lock(mutex_);
                Stats stats = stats_[device];
                all(stats.reserved_bytes).current = static_cast<int64_t>(held.n_reserved_bytes);
                all(stats.reserved_bytes).peak = static_cast<int64_t>(held.n_reserved_peak_bytes);
                all(stats.segment).current = static_cast<int64_t>(held.n_blocks);
                stats.num_alloc_retries = n_pressures - n_pressures_before_;
                return stats;
        }

        void resetAccumulatedStats(DeviceIndex device) override
        {
                const auto n_pressures = static_cast<int64_t>(library.gpumem_pressure(nullptr));
                const std::lock_guard<std::mutex> lock(mutex_);
                each_counted(stats_[device], [](Stat &stat) { stat.reset_accumulated(); });
                stats_[device].num_ooms = 0;
                n_pressures_before_ = n_pressures;
        }

        void resetPeakStats(DeviceIndex device) override
        {
                (void)library.gpumem_reset_peaks(nullptr, GPUMEM_DEVICE, device);
                const std::lock_guard<std::mutex> lock(mutex_);
                each_counted(stats_[device], [](Stat &stat) { stat.reset_peak(); });
        }

        void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                observers_.push_back(std::move(observer));
        }

        void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                                 std::function<bool(cudaStream_t)> filter) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                n_uses_[{device, id}]++;
                open_pools_.push_back({device, id, std::move(filter)});
                n_open_pools_ = open_pools_.size();
        }

        void endAllocateToPool(DeviceIndex device, MempoolId_t id) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                for (auto pool = open_pools_.begin(); pool != open_pools_.end(); ++pool) {
                        if (pool->device == device && pool->id == id) {
                                open_pools_.erase(pool);
                                n_open_pools_ = open_pools_.size();
                                return;
                        }
                }
        }

        void releasePool(DeviceIndex device, MempoolId_t id) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                const auto found = n_uses_.find({device, id});
                if (found != n_uses_.end() && --found->second == 0)
                        n_uses_.erase(found);
        }

        int getPoolUseCount(DeviceIndex device, MempoolId_t id) override
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                const auto found = n_uses_.find({device, id});
                return found == n_uses_.end() ? 0 : found->second;
        }

        void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                                std::shared_ptr<caching::CUDAAllocator> allocator) override
        {
                TORCH_CHECK(!allocator, "a MemPool with an allocator of its own is not possible "
                                        "while gpumemd serves every tensor: make it without one");
                const std::lock_guard<std::mutex> lock(mutex_);
                n_uses_[{device, id}]++;
        }

        // A pool here keeps no memory that others could use, or that could be split. Its end calls the first.
        void setUseOnOOM(DeviceIndex, MempoolId_t, bool) override {}
        void setNoSplit(DeviceIndex, MempoolId_t) override {}

        bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                      const std::unordered_set<void *> &expected) override
        {
                std::unordered_set<void *> live;
                const std::lock_guard<std::mutex> lock(mutex_);
                for (const auto &[pointer, pool] : pool_of_) {
                        if (pool == std::pair(device, id))
                                live.insert(pointer);
                }
                return live == expected;
        }

        // What is allocated, in its blocks, with what is free between. Blocks in which nothing begins are not known here.
        caching::SnapshotInfo snapshot(MempoolId_t id, bool include_traces) override;

        caching::ShareableHandle shareIpcHandle(void *pointer) override;
        std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

private:
        using PoolKey = std::pair<DeviceIndex, MempoolId_t>;

        void *make(size_t n_bytes, int device, cudaStream_t stream);
        void end(void *pointer, size_t n_bytes, int device, cudaStream_t stream);
        [[noreturn]] void refuse(size_t n_bytes, int device);
        std::optional<PoolKey> open_pool(DeviceIndex device, cudaStream_t stream);

        std::mutex mutex_; // of all that follows; never held in calls of the library that may wait
        std::map<DeviceIndex, Stats> stats_;
        std::map<DeviceIndex, double> fractions_;
        std::vector<caching::OutOfMemoryObserver> observers_;
        std::vector<OpenPool> open_pools_;
        std::atomic<size_t> n_open_pools_{0}; // of them, for those that look without the lock
        std::map<PoolKey, int> n_uses_;
        std::unordered_map<void *, PoolKey> pool_of_;
        std::unordered_map<void *, std::string> handle_of_; // of memory that was sent
        std::unordered_map<std::string, std::weak_ptr<void>> received_;
        int64_t n_pressures_before_ = 0;
};

void Allocator::refuse(size_t n_bytes, int device)
{
        const gpumem_refusal refusal = last_refusal();
        const bool is_lacking = lacks_memory(refusal.code);
        const std::string text = (is_lacking ? "CUDA out of memory." : "gpumem: no memory.") +
                                 (" Tried to allocate " + size_text(n_bytes)) + " on GPU " +
                                 std::to_string(device) + " from gpumemd: " + refusal.text;
        std::vector<caching::OutOfMemoryObserver> observers;
        const auto index = static_cast<DeviceIndex>(device);

        if (!is_lacking)
                TORCH_CHECK(false, text);
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                stats_[index].num_ooms++;
                observers = observers_;
        }
        const gpumem_stats held = stats_of(index);
        const uint64_t n_free = observers.empty() ? 0 : figure(index, "available_bytes");
        for (const auto &observer : observers)
                observer(device, held.n_allocated_bytes, held.n_reserved_bytes + n_free, n_free);
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
        throw std::bad_alloc();
}

// Torch asks the driver there, which refuses the default stream while another thread captures.
bool accepts(const OpenPool &pool, cudaStream_t stream)
{
        try {
                return pool.accepts(stream);
        } catch (const c10::Error &) {
                return false;
        }
}

// The pool of what is allocated in this stream now, if one is open for it.
std::optional<Allocator::PoolKey> Allocator::open_pool(DeviceIndex device, cudaStream_t stream)
{
        if (!n_open_pools_)
                return {};
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const OpenPool &pool : open_pools_) {
                if (pool.device == device && accepts(pool, stream))
                        return PoolKey(device, pool.id);
        }
        return {};
}

void *Allocator::make(size_t n_bytes, int device, cudaStream_t stream)
{
        const auto index = static_cast<DeviceIndex>(device);
        void *pointer;

        if (!n_bytes)
                return nullptr;
        const std::optional<PoolKey> pool = open_pool(index, stream);
        pointer = own_block_flags ? allocate_own_block(n_bytes, device, stream)
                                  : library.gpumem_torch_pool_alloc(n_bytes, device, stream);
        if (!pointer)
                refuse(n_bytes, device);
        const std::lock_guard<std::mutex> lock(mutex_);
        count(stats_[index], n_bytes, &Stat::increase);
        if (pool)
                pool_of_[pointer] = *pool;
        return pointer;
}

// What is known of the pointer goes before the memory: another thread may get it at once.
void Allocator::end(void *pointer, size_t n_bytes, int device, cudaStream_t stream)
{
        if (!pointer)
                return;
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                count(stats_[static_cast<DeviceIndex>(device)], n_bytes, &Stat::decrease);
                if (!pool_of_.empty())
                        pool_of_.erase(pointer);
                if (!handle_of_.empty())
                        handle_of_.erase(pointer);
        }
        library.gpumem_torch_free(pointer, n_bytes, device, stream);
}

// An allocation in a snapshot. It begins in one block, and may reach into those that follow in memory.
struct Piece {
        size_t n_allocated, n_requested, block, block_end;
        DeviceIndex device;
        cudaStream_t stream;
};

caching::BlockInfo block_info(size_t n_bytes, size_t n_requested)
{
        caching::BlockInfo info;
        info.size = n_bytes;
        info.requested_size = n_requested;
        info.allocated = info.active = n_requested != 0;
        return info;
}

// Torch's segments have no gaps between their blocks.
void fill_to(caching::SegmentInfo &segment, size_t address)
{
        size_t at = segment.address;
        for (const caching::BlockInfo &block : segment.blocks)
                at += block.size;
        if (at < address)
                segment.blocks.push_back(block_info(address - at, 0));
}

void add_piece(std::vector<caching::SegmentInfo> &segments, size_t address, const Piece &piece)
{
        const size_t end = std::max(piece.block_end, address + piece.n_allocated);
        caching::SegmentInfo *last = segments.empty() ? nullptr : &segments.back();

        if (!last || last->device != piece.device ||
            piece.block > last->address + last->total_size) {
                last = &segments.emplace_back();
                last->device = piece.device;
                last->address = piece.block;
                last->stream = piece.stream;
                last->is_large = true;
        }
        fill_to(*last, address);
        last->blocks.push_back(block_info(piece.n_allocated, piece.n_requested));
        last->total_size = std::max(last->total_size, end - last->address);
        last->allocated_size += piece.n_allocated;
        last->active_size += piece.n_allocated;
        last->requested_size += piece.n_requested;
}

caching::SnapshotInfo Allocator::snapshot(MempoolId_t id, bool /* include_traces */)
{
        const bool is_whole = id == MempoolId_t{0, 0};
        caching::SnapshotInfo snapshot{};
        std::map<size_t, Piece> pieces;
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                const std::lock_guard<std::mutex> their_lock(allocator_mutex_);
                for (const auto &[pointer, known] : allocation_metadata_) {
                        const auto pool = pool_of_.find(pointer);
                        gpumem_info info{};
                        info.struct_size = sizeof(info);
                        if ((!is_whole && (pool == pool_of_.end() || pool->second.second != id)) ||
                            library.gpumem_describe(nullptr, pointer, &info))
                                continue;
                        const auto block = reinterpret_cast<size_t>(info.block_base);
                        pieces[reinterpret_cast<size_t>(pointer)] = {
                                info.n_allocated_bytes,     info.n_requested_bytes, block,
                                block + info.n_block_bytes, known.device_idx,       known.stream};
                }
        }
        for (const auto &[address, piece] : pieces)
                add_piece(snapshot.segments, address, piece);
        for (caching::SegmentInfo &segment : snapshot.segments) {
                segment.owner_private_pool_id = id;
                fill_to(segment, segment.address + segment.total_size);
        }
        return snapshot;
}

caching::ShareableHandle Allocator::shareIpcHandle(void *pointer)
{
        char text[GPUMEM_TOKEN_TEXT_BYTES];
        void *start = library.gpumem_torch_base(pointer, nullptr);
        const auto offset = static_cast<char *>(pointer) - static_cast<char *>(start);
        gpumem_token token;
        int result;
        {
                const std::lock_guard<std::mutex> lock(mutex_);
                const auto found = handle_of_.find(start);
                if (found != handle_of_.end())
                        return {offset, found->second};
        }
        result = library.gpumem_share(nullptr, start, nullptr, &token);
        TORCH_CHECK(result != GPUMEM_E_NOT_SHAREABLE,
                    "this tensor's memory cannot be sent to another process: allocate it in "
                    "`with gpumem.torch.shareable():`, or send its .cpu()");
        TORCH_CHECK(!result, "gpumem_share: ", reason(result));
        const std::lock_guard<std::mutex> lock(mutex_);
        handle_of_[start] = handle_start + std::string(library.gpumem_token_format(&token, text));
        return {offset, handle_of_[start]};
}

// As cudaIpcCloseMemHandle does, it waits for the device: any of its streams may have used the memory.
void detach(void *pointer, DeviceIndex device)
{
        try {
                const c10::cuda::CUDAGuard guard(device);
                c10::cuda::device_synchronize();
                const int result = library.gpumem_detach(nullptr, pointer, nullptr);
                if (result)
                        TORCH_WARN("gpumem_detach: ", library.gpumem_strerror(result));
        } catch (const std::exception &error) {
                TORCH_WARN("memory of another process stays attached: ", error.what());
        }
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle)
{
        const size_t n_start = sizeof(handle_start) - 1;
        gpumem_token token;
        void *pointer = nullptr;
        uint64_t n_bytes;
        int result;

        {
                const std::lock_guard<std::mutex> lock(mutex_);
                if (auto known = received_[handle].lock())
                        return known;
                received_.erase(handle);
        }
        TORCH_CHECK(!handle.compare(0, n_start, handle_start) &&
                            !library.gpumem_token_parse(handle.c_str() + n_start, &token),
                    "this tensor comes from a process that gpumemd does not serve");
        result = library.gpumem_attach(nullptr, &token, &pointer, &n_bytes);
        TORCH_CHECK(!result, "gpumem_attach: ", reason(result));
        const DeviceIndex device = c10::cuda::current_device();
        std::shared_ptr<void> attached(pointer, [device](void *memory) { detach(memory, device); });
        const std::lock_guard<std::mutex> lock(mutex_);
        received_[handle] = attached;
        return attached;
}

std::string problem; // of the last call below

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Finds the functions in the libgpumem-client of that path, which the process has loaded. Gives nullptr, or what is wrong.
EXPORT const char *gpumem_torch_extension_open(const char *path)
{
        void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
        if (!handle) {
                problem = std::string(path) + " is not loaded";
                return problem.c_str();
        }
#define FIND(name)                                                        \
        *reinterpret_cast<void **>(&library.name) = dlsym(handle, #name); \
        if (!library.name) {                                              \
                problem = std::string(path) + " has no " #name;           \
                return problem.c_str();                                   \
        }
        FUNCTIONS(FIND)
#undef FIND
        return nullptr;
}

// From now on all CUDA tensors are gpumemd's: before torch's own allocator is used. Gives nullptr, or what is wrong.
EXPORT const char *gpumem_torch_extension_install(void)
{
        try {
                auto made = std::make_shared<Allocator>();
                made->init(0);
                torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(made);
                return nullptr;
        } catch (const std::exception &error) {
                problem = error.what();
                return problem.c_str();
        }
}

// Sets the flags of what this thread allocates from now on. Gives those before.
EXPORT uint32_t gpumem_torch_extension_set_flags(uint32_t flags)
{
        const uint32_t before = own_block_flags;
        own_block_flags = flags;
        return before;
}
