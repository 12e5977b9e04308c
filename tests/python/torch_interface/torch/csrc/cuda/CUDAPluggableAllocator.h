/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of torch 2.11 for allocators, as far as gpumem's extension uses it: the same names, and the same types of what
 * is overridden. Torch itself is too large to be fetched by a test. */
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

using cudaStream_t = struct CUstream_st *;

namespace c10
{
using DeviceIndex = int8_t;
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

struct Error : std::runtime_error {
        using std::runtime_error::runtime_error;
};
struct OutOfMemoryError : Error {
        using Error::Error;
};

template <class... Parts> std::string str(const Parts &...parts)
{
        std::ostringstream text;
        (void)(text << ... << parts);
        return text.str();
}

namespace CachingAllocator
{
struct Stat {
        void increase(size_t amount)
        {
                current += static_cast<int64_t>(amount);
                peak = std::max(current, peak);
                allocated += static_cast<int64_t>(amount);
        }
        void decrease(size_t amount)
        {
                current -= static_cast<int64_t>(amount);
                freed += static_cast<int64_t>(amount);
        }
        void reset_accumulated()
        {
                allocated = freed = 0;
        }
        void reset_peak()
        {
                peak = current;
        }
        int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
enum struct StatType : uint64_t { AGGREGATE = 0, SMALL_POOL = 1, LARGE_POOL = 2 };
using StatArray = std::array<Stat, 3>;
} // namespace CachingAllocator

namespace CachingDeviceAllocator
{
struct DeviceStats {
        CachingAllocator::StatArray allocation, segment, active, allocated_bytes, reserved_bytes;
        CachingAllocator::StatArray active_bytes, requested_bytes;
        int64_t num_alloc_retries = 0, num_ooms = 0;
};
struct BlockInfo {
        size_t size = 0, requested_size = 0;
        bool allocated = false, active = false;
};
struct SegmentInfo {
        DeviceIndex device = 0;
        size_t address = 0, total_size = 0, requested_size = 0, allocated_size = 0, active_size = 0;
        void *stream = nullptr;
        bool is_large = false;
        MempoolId_t owner_private_pool_id = {0, 0};
        std::vector<BlockInfo> blocks;
};
} // namespace CachingDeviceAllocator
} // namespace c10

#define TORCH_CHECK_WITH(error, condition, ...)                  \
        do {                                                     \
                if (!(condition))                                \
                        throw c10::error(c10::str(__VA_ARGS__)); \
        } while (0)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_WITH(Error, condition, __VA_ARGS__)
void stand_in_warn(const std::string &text);
#define TORCH_WARN(...) stand_in_warn(c10::str(__VA_ARGS__))

namespace c10::cuda::CUDACachingAllocator
{
using CachingDeviceAllocator::BlockInfo;
using CachingDeviceAllocator::DeviceStats;
using CachingDeviceAllocator::SegmentInfo;
using OutOfMemoryObserver = std::function<void(int64_t, size_t, size_t, size_t)>;

struct SnapshotInfo {
        std::vector<SegmentInfo> segments;
};
struct ShareableHandle {
        ptrdiff_t offset;
        std::string handle;
};

struct CUDAAllocator {
        virtual ~CUDAAllocator() = default;
        virtual std::string name() = 0;
        virtual void init(int n_devices) = 0;
        virtual void setMemoryFraction(double fraction, DeviceIndex device) = 0;
        virtual double getMemoryFraction(DeviceIndex device) = 0;
        virtual void cacheInfo(DeviceIndex device, size_t *largest) = 0;
        virtual bool isHistoryEnabled() = 0;
        virtual DeviceStats getDeviceStats(DeviceIndex device) = 0;
        virtual void resetAccumulatedStats(DeviceIndex device) = 0;
        virtual void resetPeakStats(DeviceIndex device) = 0;
        virtual void attachOutOfMemoryObserver(OutOfMemoryObserver observer) = 0;
        virtual void beginAllocateToPool(DeviceIndex device, MempoolId_t id,
                                         std::function<bool(cudaStream_t)> filter) = 0;
        virtual void endAllocateToPool(DeviceIndex device, MempoolId_t id) = 0;
        virtual void releasePool(DeviceIndex device, MempoolId_t id) = 0;
        virtual int getPoolUseCount(DeviceIndex device, MempoolId_t id) = 0;
        virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id,
                                        std::shared_ptr<CUDAAllocator> allocator) = 0;
        virtual void setUseOnOOM(DeviceIndex device, MempoolId_t id, bool value) = 0;
        virtual void setNoSplit(DeviceIndex device, MempoolId_t id) = 0;
        virtual bool checkPoolLiveAllocations(DeviceIndex device, MempoolId_t id,
                                              const std::unordered_set<void *> &expected) = 0;
        virtual SnapshotInfo snapshot(MempoolId_t id, bool include_traces) = 0;
        virtual ShareableHandle shareIpcHandle(void *pointer) = 0;
        virtual std::shared_ptr<void> getIpcDevPtr(std::string handle) = 0;
};
} // namespace c10::cuda::CUDACachingAllocator

namespace torch::cuda::CUDAPluggableAllocator
{
struct Metadata {
        size_t size;
        c10::DeviceIndex device_idx;
        cudaStream_t stream;
};

/* What torch does for every pluggable allocator: it calls two functions, and remembers what is allocated. */
struct CUDAPluggableAllocator : c10::cuda::CUDACachingAllocator::CUDAAllocator {
        using Alloc = std::function<void *(size_t, int, cudaStream_t)>;
        using Free = std::function<void(void *, size_t, int, cudaStream_t)>;

        CUDAPluggableAllocator(Alloc alloc, Free free);
        void *malloc(size_t n_bytes, c10::DeviceIndex device, cudaStream_t stream);
        void raw_delete(void *pointer);
        void init(int n_devices) override;
        void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
        void set_init_fn(std::function<void(int)> init);
        void set_reset_fn(std::function<void()> reset);
        void set_memory_fraction_fn(std::function<void(double, int)> set_fraction);
        void set_base_alloc_fn(std::function<void *(void *, size_t *)> base);
        void set_record_stream_fn(std::function<void(void *, cudaStream_t)> record_stream);

      protected:
        Alloc alloc_fn_;
        Free free_fn_;
        std::function<void(int)> init_fn_;
        std::function<void(double, int)> memory_fraction_fn_;
        std::mutex allocator_mutex_;
        std::unordered_map<void *, Metadata> allocation_metadata_;
};

void changeCurrentAllocator(
        const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator);
} // namespace torch::cuda::CUDAPluggableAllocator
