/* SPDX-License-Identifier: Apache-2.0 */
/* Of torch 2.11, what gpumem's extension includes by this name. */
#pragma once

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

namespace c10::cuda
{
struct CUDAGuard {
        explicit CUDAGuard(DeviceIndex)
        {
        }
};

inline DeviceIndex current_device()
{
        return 0;
}

void device_synchronize();
} // namespace c10::cuda
