// SPDX-License-Identifier: Apache-2.0
// gpumem-resources.hpp with the headers of RMM, CUDA's C++ libraries and Thrust. Prints TAP. GPUMEM_SOCKET names a
// daemon of one device; Thrust runs on the CPU, over pinned memory.
#include <gpumem-resources.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>

#include <cstdio>
#include <functional>

namespace {

using DeviceResource = gpumem::device_resource<cuda::mr::device_accessible>;
using PinnedResource = gpumem::pinned_resource<cuda::mr::host_accessible, cuda::mr::device_accessible>;

static_assert(cuda::mr::resource_with<DeviceResource, cuda::mr::device_accessible>);
static_assert(!cuda::mr::resource_with<DeviceResource, cuda::mr::host_accessible>);
static_assert(cuda::mr::resource_with<PinnedResource, cuda::mr::host_accessible, cuda::mr::device_accessible>);

const cuda::stream_ref default_stream{cudaStream_t{}};
int n_cases, n_failed;

void check(const char *what, const std::function<bool()> &holds)
{
        bool is_so = false;
        try {
                is_so = holds();
        } catch (const std::exception &error) {
                std::printf("# %s\n", error.what());
        }
        n_failed += !is_so;
        std::printf("%s %d - %s\n", is_so ? "ok" : "not ok", ++n_cases, what);
}

bool is_live(const void *pointer, std::size_t n_bytes)
{
        gpumem_info info{};
        info.struct_size = sizeof(info);
        return gpumem_describe(nullptr, pointer, &info) == 0 && info.n_requested_bytes == n_bytes;
}

bool cuda_takes_a_resource()
{
        DeviceResource resource;
        cuda::mr::any_resource<cuda::mr::device_accessible> any{resource}, same{DeviceResource()};
        void *pointer = any.allocate(default_stream, 1000, 256);
        bool was_live = is_live(pointer, 1000);
        same.deallocate(default_stream, pointer, 1000, 256);
        return was_live && any == same && !is_live(pointer, 1000);
}

bool rmm_takes_a_resource()
{
        DeviceResource resource;
        rmm::mr::statistics_resource_adaptor counted{resource};
        void *pointer;
        {
                rmm::device_buffer plain(1000, default_stream, resource), buffer(2000, default_stream, counted);
                pointer = buffer.data();
                if (!is_live(plain.data(), 1000) || !is_live(pointer, 2000) ||
                    counted.get_bytes_counter().value != 2000)
                        return false;
        }
        return !is_live(pointer, 2000);
}

bool rmm_gets_bad_alloc()
{
        DeviceResource resource;
        try {
                rmm::device_buffer buffer(std::size_t(1) << 50, default_stream, resource);
        } catch (const std::bad_alloc &) {
                return true;
        }
        return false;
}

bool thrust_takes_allocators()
{
        using Vector = thrust::device_vector<int, gpumem::pinned_allocator<int, thrust::device_ptr<int>>>;
        Vector first(1000);
        thrust::sequence(first.begin(), first.end());
        Vector second(first);
        second.resize(5000, 1);
        gpumem::device_allocator<double, thrust::device_ptr<double>> allocator;
        thrust::device_ptr<double> memory = allocator.allocate(10);
        bool was_live = is_live(memory.get(), 80);
        allocator.deallocate(memory, 10);
        return was_live && is_live(second.data().get(), 20000) &&
               thrust::reduce(second.begin(), second.end()) == 999 * 500 + 4000;
}

} // namespace

int main()
{
        check("cuda::mr takes a resource", cuda_takes_a_resource);
        check("RMM takes a resource, and adaptors over it", rmm_takes_a_resource);
        check("RMM passes a std::bad_alloc on", rmm_gets_bad_alloc);
        check("Thrust takes allocators", thrust_takes_allocators);
        check("no call failed", [] { return gpumem::failures() == 0; });
        std::printf("1..%d\n", n_cases);
        return n_failed != 0;
}
