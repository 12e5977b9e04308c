/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated driver cannot do, and programs ask it for all the same: it says so. A kernel that is loaded and
 * never runs would be a lie, so the ways to one end here. There is no cuLaunchKernel, by which tests know that none
 * runs, nor anything else that takes what these calls would give. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "driver/emulator/machine/emulator.h"

/* No argument is looked at.
 * NOLINTBEGIN(misc-unused-parameters) */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static CUresult refuse(const char *call)
{
        CUresult r = emulator_enter(call);

        return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : r;
}

#define REFUSED(call, parameters)                     \
        EMULATOR_API CUresult CUDAAPI call parameters \
        {                                             \
                return refuse(__func__);              \
        }

REFUSED(cuLibraryLoadData,
        (CUlibrary * library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
         unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
         unsigned int numLibraryOptions))
REFUSED(cuLibraryLoadFromFile,
        (CUlibrary * library, const char *fileName, CUjit_option *jitOptions,
         void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
         void **libraryOptionValues, unsigned int numLibraryOptions))
REFUSED(cuModuleLoad, (CUmodule * module, const char *fname))
REFUSED(cuModuleLoadData, (CUmodule * module, const void *image))
REFUSED(cuModuleLoadDataEx, (CUmodule * module, const void *image, unsigned int numOptions,
                             CUjit_option *options, void **optionValues))
REFUSED(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin))
REFUSED(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags))
REFUSED(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool_out, CUdevice dev))
REFUSED(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice dev))
REFUSED(cuMemGetDefaultMemPool,
        (CUmemoryPool * pool_out, CUmemLocation *location, CUmemAllocationType type))
REFUSED(cuMemGetMemPool, (CUmemoryPool * pool, CUmemLocation *location, CUmemAllocationType type))
REFUSED(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *poolProps))
REFUSED(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream))
REFUSED(cuMemAllocAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream))
REFUSED(cuMemAllocFromPoolAsync,
        (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream))
REFUSED(cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream))

/* NOLINTEND(misc-unused-parameters) */
