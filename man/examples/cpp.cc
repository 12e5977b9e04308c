// SPDX-License-Identifier: Apache-2.0
// The GPU fills device memory, a copy brings it to a std::vector of pinned memory, and the CPU checks it.
#include <algorithm>
#include <cuda.h>
#include <gpumem-resources.hpp>
#include <gpumem.hpp>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::size_t n_words = 1 << 20;
constexpr unsigned pattern = 0xC0FFEE;

void check_cuda(CUresult result)
{
        if (result != CUDA_SUCCESS)
                throw std::runtime_error("CUDA error " + std::to_string(result));
}

void fill_and_copy(CUstream stream)
{
        gpumem::device_buffer words(n_words * sizeof(unsigned), stream);
        std::vector<unsigned, gpumem::pinned_allocator<unsigned>> copy(n_words);
        const auto address = reinterpret_cast<CUdeviceptr>(words.data());

        check_cuda(cuMemsetD32Async(address, pattern, n_words, stream));
        check_cuda(cuMemcpyDtoHAsync(copy.data(), address, words.size(), stream));
        check_cuda(cuStreamSynchronize(stream));
        std::cout << std::count(copy.begin(), copy.end(), pattern) << " of " << n_words << " words are right\n";
}

// No device has so much: the text says what there is.
void ask_for_too_much()
{
        try {
                gpumem::device_buffer buffer(std::size_t(1) << 50);
        } catch (const gpumem::out_of_memory &error) {
                std::cout << "result " << error.code() << ", " << error.what() << '\n';
        }
}

} // namespace

int main()
{
        CUcontext context;
        CUdevice device;
        CUstream stream;

        try {
                check_cuda(cuInit(0));
                check_cuda(cuDeviceGet(&device, 0));
                check_cuda(cuDevicePrimaryCtxRetain(&context, device));
                check_cuda(cuCtxSetCurrent(context));
                check_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
                fill_and_copy(stream);
                ask_for_too_much();
                check_cuda(cuStreamDestroy(stream));
                check_cuda(cuDevicePrimaryCtxRelease(device));
        } catch (const std::exception &error) {
                std::cerr << error.what() << '\n';
                return 1;
        }
        return gpumem::failures() ? 1 : 0;
}
