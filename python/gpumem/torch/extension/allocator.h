// SPDX-License-Identifier: Apache-2.0
// The allocator that torch calls: tensors' memory, refusals as torch.OutOfMemoryError, pools and what lives in them,
// figures. extension.cc has its snapshots, and tensors that are sent to other processes. Any thread.
#pragma once

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "library.h"

namespace gpumem_torch
{

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::MempoolId_t;

// An open pool: what is allocated in the streams that it accepts is its own.
struct OpenPool {
        DeviceIndex device;
        MempoolId_t id;
        std::function<bool(cudaStream_t)> accepts;
};

// Memory of other processes that is attached here, by what it travelled as: torch asks again for each tensor in it. It lives
// as long as any of that memory.
class Received
{
      public:
        std::shared_ptr<void> find(const std::string &handle);
        void keep(const std::string &handle, const std::shared_ptr<void> &attached);
        void forget(const std::string &handle);

      private:
        std::mutex mutex_;
        std::unordered_map<std::string, std::weak_ptr<void>> by_handle_;
};

using Base = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

class Allocator final : public Base
{
      public:
        Allocator()
            : Base([this](size_t n, int device,
                          cudaStream_t stream) { return make(n, device, stream); },
                   [this](void *pointer, size_t n, int device, cudaStream_t stream) {
                           end(pointer, n, device, stream);
                   })
        {
                set_init_fn(library.gpumem_torch_init);
                set_reset_fn(library.gpumem_torch_empty_cache);
                set_memory_fraction_fn(library.gpumem_torch_set_fraction);
                set_base_alloc_fn(library.gpumem_torch_base);
                set_record_stream_fn([](void *pointer, cudaStream_t stream) {
                        library.gpumem_torch_record_stream(pointer, stream);
                });
        }

        std::string name() override
        {
                return "gpumem";
        }

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

        bool isHistoryEnabled() override
        {
                return false;
        }

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
        void setUseOnOOM(DeviceIndex, MempoolId_t, bool) override
        {
        }
        void setNoSplit(DeviceIndex, MempoolId_t) override
        {
        }

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
        int64_t n_pressures_before_ = 0;

        const std::shared_ptr<Received> received_ = std::make_shared<Received>();
};

inline void Allocator::refuse(size_t n_bytes, int device)
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
inline bool accepts(const OpenPool &pool, cudaStream_t stream)
{
        try {
                return pool.accepts(stream);
        } catch (const c10::Error &) {
                return false;
        }
}

// The pool of what is allocated in this stream now, if one is open for it.
inline std::optional<Allocator::PoolKey> Allocator::open_pool(DeviceIndex device,
                                                              cudaStream_t stream)
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

inline void *Allocator::make(size_t n_bytes, int device, cudaStream_t stream)
{
        const auto index = static_cast<DeviceIndex>(device);
        void *pointer;

        if (!n_bytes)
                return nullptr;
        const std::optional<PoolKey> pool = open_pool(index, stream);
        pointer = own_block_flags
                          ? library.gpumem_torch_own_alloc(own_block_flags, n_bytes, device, stream)
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
inline void Allocator::end(void *pointer, size_t n_bytes, int device, cudaStream_t stream)
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

} // namespace gpumem_torch
