// SPDX-License-Identifier: Apache-2.0
// PyTorch's pluggable allocator, with what its plain interface lacks: OutOfMemoryError, cacheInfo, pools and what lives
// in them, statistics (allocator.h), snapshots, and tensors sent to other processes by tokens (here).
//
// `python -m gpumem torch-extension` compiles this file for the torch that is installed, and gpumem.torch.install()
// loads it by ctypes. Without it all tensors come from gpumemd as well. The functions of libgpumem-client are those of
// the copy that Python has loaded (library.h), so nothing is linked.
#include <c10/cuda/CUDAGuard.h>

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "allocator.h"

namespace gpumem_torch {

// An allocation in a snapshot. It begins in one block, and may reach into those that follow in memory.
struct Piece {
        size_t n_allocated, n_requested, block, block_end;
        DeviceIndex device;
        cudaStream_t stream;
};

static caching::BlockInfo block_info(size_t n_bytes, size_t n_requested)
{
        caching::BlockInfo info;
        info.size = n_bytes;
        info.requested_size = n_requested;
        info.allocated = info.active = n_requested != 0;
        return info;
}

// Torch's segments have no gaps between their blocks.
static void fill_to(caching::SegmentInfo &segment, size_t address)
{
        size_t at = segment.address;
        for (const caching::BlockInfo &block : segment.blocks)
                at += block.size;
        if (at < address)
                segment.blocks.push_back(block_info(address - at, 0));
}

static void add_piece(std::vector<caching::SegmentInfo> &segments, size_t address,
                      const Piece &piece)
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

constexpr char handle_start[] = "gpumem:"; // of what travels in place of a CUDA IPC handle

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
static void detach(void *pointer, DeviceIndex device)
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

std::shared_ptr<void> Received::find(const std::string &handle)
{
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = by_handle_.find(handle);
        return found == by_handle_.end() ? nullptr : found->second.lock();
}

void Received::keep(const std::string &handle, const std::shared_ptr<void> &attached)
{
        const std::lock_guard<std::mutex> lock(mutex_);
        by_handle_[handle] = attached;
}

// Another thread may have received it again meanwhile.
void Received::forget(const std::string &handle)
{
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = by_handle_.find(handle);
        if (found != by_handle_.end() && found->second.expired())
                by_handle_.erase(found);
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string handle)
{
        const size_t n_start = sizeof(handle_start) - 1;
        gpumem_token token;
        void *pointer = nullptr;
        uint64_t n_bytes;
        int result;

        if (auto known = received_->find(handle))
                return known;
        TORCH_CHECK(!handle.compare(0, n_start, handle_start) &&
                            !library.gpumem_token_parse(handle.c_str() + n_start, &token),
                    "this tensor comes from a process that gpumemd does not serve");
        result = library.gpumem_attach(nullptr, &token, &pointer, &n_bytes);
        TORCH_CHECK(!result, "gpumem_attach: ", reason(result));
        const DeviceIndex device = c10::cuda::current_device();
        std::shared_ptr<void> attached(pointer, [device, handle, all = received_](void *memory) {
                all->forget(handle);
                detach(memory, device);
        });
        received_->keep(handle, attached);
        return attached;
}

static std::string problem; // of the last call below

} // namespace gpumem_torch

#define EXPORT extern "C" __attribute__((visibility("default")))

using gpumem_torch::library;
using gpumem_torch::problem;

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
                auto made = std::make_shared<gpumem_torch::Allocator>();
                torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(made);
                made->init(0);
                return nullptr;
        } catch (const std::exception &error) {
                problem = error.what();
                return problem.c_str();
        }
}

// Sets the flags of what this thread allocates from now on. Gives those before.
EXPORT uint32_t gpumem_torch_extension_set_flags(uint32_t flags)
{
        const uint32_t before = gpumem_torch::own_block_flags;
        gpumem_torch::own_block_flags = flags;
        return before;
}
