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

EMULATOR_API CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code,
                                                CUjit_option *jitOptions, void **jitOptionsValues,
                                                unsigned int numJitOptions,
                                                CUlibraryOption *libraryOptions,
                                                void **libraryOptionValues,
                                                unsigned int numLibraryOptions)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuLibraryLoadFromFile(
        CUlibrary *library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
        unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image,
                                                 unsigned int numOptions, CUjit_option *options,
                                                 void **optionValues)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize,
                                                unsigned int flags)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out,
                                                     CUmemLocation *location,
                                                     CUmemAllocationType type)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                              CUmemAllocationType type)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize,
                                                   CUstream hStream)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize,
                                                      CUmemoryPool pool, CUstream hStream)
{
        return refuse(__func__);
}

EMULATOR_API CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize,
                                                           CUmemoryPool pool, CUstream hStream)
{
        return refuse(__func__);
}

/* NOLINTEND(misc-unused-parameters) */
