// SPDX-License-Identifier: Apache-2.0
// Stands for libtorch_cuda.so: torch's part of a pluggable allocator, and calls of the current allocator for ctypes.
// A text that is given is valid until the next call.
#include <algorithm>

#include <c10/cuda/CUDAGuard.h>

namespace {

std::shared_ptr<torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator> current;
std::shared_ptr<void> received;
std::string text, warned;
int n_observed, n_synchronized;

const char *give(const std::string &given)
{
        text = given;
        return text.c_str();
}

template <class Do> const char *guarded(Do call)
{
        try {
                call();
                return nullptr;
        } catch (const c10::OutOfMemoryError &error) {
                return give(std::string("OutOfMemoryError: ") + error.what());
        } catch (const c10::Error &error) {
                return give(std::string("Error: ") + error.what());
        }
}

} // namespace

namespace torch::cuda::CUDAPluggableAllocator {

CUDAPluggableAllocator::CUDAPluggableAllocator(Alloc alloc, Free free) : alloc_fn_(alloc), free_fn_(free) {}

void *CUDAPluggableAllocator::malloc(size_t n_bytes, c10::DeviceIndex device, cudaStream_t stream)
{
        void *pointer = alloc_fn_(n_bytes, device, stream);
        const std::lock_guard<std::mutex> lock(allocator_mutex_);
        allocation_metadata_[pointer] = {n_bytes, device, stream};
        return pointer;
}

void CUDAPluggableAllocator::raw_delete(void *pointer)
{
        Metadata known;
        {
                const std::lock_guard<std::mutex> lock(allocator_mutex_);
                known = allocation_metadata_.at(pointer);
                allocation_metadata_.erase(pointer);
        }
        free_fn_(pointer, known.size, known.device_idx, known.stream);
}

void CUDAPluggableAllocator::init(int n_devices)
{
        if (init_fn_)
                init_fn_(n_devices);
}

void CUDAPluggableAllocator::set_init_fn(std::function<void(int)> init)
{
        init_fn_ = init;
}

void CUDAPluggableAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device)
{
        memory_fraction_fn_(fraction, device);
}

void CUDAPluggableAllocator::set_reset_fn(std::function<void()>) {}

void CUDAPluggableAllocator::set_memory_fraction_fn(std::function<void(double, int)> set_fraction)
{
        memory_fraction_fn_ = set_fraction;
}

void CUDAPluggableAllocator::set_base_alloc_fn(std::function<void *(void *, size_t *)>) {}

void CUDAPluggableAllocator::set_record_stream_fn(std::function<void(void *, cudaStream_t)>) {}

void changeCurrentAllocator(const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator)
{
        if (current)
                throw c10::Error("Can't swap an already initialized allocator");
        current = std::static_pointer_cast<CUDAPluggableAllocator>(allocator);
}

} // namespace torch::cuda::CUDAPluggableAllocator

void c10::cuda::device_synchronize()
{
        n_synchronized++;
}

void stand_in_warn(const std::string &said)
{
        warned = said;
}

extern "C" {

const char *stand_in_name() { return current ? give(current->name()) : nullptr; }

// Gives nullptr, or "TYPE: TEXT" of what was thrown.
const char *stand_in_alloc(size_t n_bytes, void *stream, void **ret_pointer)
{
        return guarded([&] { *ret_pointer = current->malloc(n_bytes, 0, static_cast<cudaStream_t>(stream)); });
}

void stand_in_free(void *pointer) { current->raw_delete(pointer); }

size_t stand_in_cache_info()
{
        size_t largest = 0;
        current->cacheInfo(0, &largest);
        return largest;
}

// current, peak, allocated and freed of allocation, allocated_bytes, requested_bytes and reserved_bytes, then num_ooms.
void stand_in_stats(int64_t *ret_values)
{
        const auto stats = current->getDeviceStats(0);
        for (const auto *array : {&stats.allocation, &stats.allocated_bytes, &stats.requested_bytes, &stats.reserved_bytes}) {
                const auto &all = (*array)[0];
                for (int64_t value : {all.current, all.peak, all.allocated, all.freed})
                        *ret_values++ = value;
        }
        *ret_values = stats.num_ooms;
}

void stand_in_reset(void)
{
        current->resetPeakStats(0);
        current->resetAccumulatedStats(0);
}

double stand_in_fraction(double fraction)
{
        if (fraction > 0)
                current->setMemoryFraction(fraction, 0);
        return current->getMemoryFraction(0);
}

int stand_in_observe(void)
{
        if (!n_observed)
                current->attachOutOfMemoryObserver([](int64_t, size_t, size_t, size_t) { n_observed++; });
        return n_observed;
}

// A pool that takes what is allocated in `stream`. A filter throws where the driver refuses to say.
void stand_in_pool_begin(uint64_t id, void *stream)
{
        current->beginAllocateToPool(0, {0, id}, [stream](cudaStream_t asked) {
                if (!asked)
                        throw c10::Error("the default stream, while another captures");
                return asked == stream;
        });
}

void stand_in_pool_end(uint64_t id) { current->endAllocateToPool(0, {0, id}); }

// As a MemPool does at its end.
int stand_in_pool_release(uint64_t id)
{
        const int n_before = current->getPoolUseCount(0, {0, id});
        current->setUseOnOOM(0, {0, id}, false);
        current->releasePool(0, {0, id});
        return n_before;
}

const char *stand_in_pool_make(uint64_t id, int has_allocator)
{
        return guarded([&] { current->createOrIncrefPool(0, {0, id}, has_allocator ? current : nullptr); });
}

int stand_in_pool_has(uint64_t id, void **pointers, size_t n)
{
        return current->checkPoolLiveAllocations(0, {0, id}, std::unordered_set<void *>(pointers, pointers + n));
}

// A line for each segment: its address and size, and then of each block its size, and whether it is allocated.
const char *stand_in_snapshot(uint64_t id)
{
        std::ostringstream lines;
        for (const auto &segment : current->snapshot({0, id}, true).segments) {
                lines << segment.address << ' ' << segment.total_size;
                for (const auto &block : segment.blocks)
                        lines << ' ' << block.size << (block.allocated ? "+" : "-");
                lines << '\n';
        }
        return give(lines.str());
}

const char *stand_in_share(void *pointer, int64_t *ret_offset, char *ret_handle, size_t n_room)
{
        return guarded([&] {
                const auto shared = current->shareIpcHandle(pointer);
                *ret_offset = shared.offset;
                ret_handle[shared.handle.copy(ret_handle, n_room - 1)] = '\0';
        });
}

const char *stand_in_receive(const char *handle, void **ret_pointer)
{
        return guarded([&] {
                received = current->getIpcDevPtr(handle);
                *ret_pointer = current->getIpcDevPtr(handle).get();
        });
}

// How often the device was waited for, or -1 if something was wrong.
int stand_in_let_go(void)
{
        received.reset();
        return warned.empty() ? n_synchronized : -1;
}
}
