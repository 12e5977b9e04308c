/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls that find others: by name and version, or as tables that NVIDIA's own libraries share. */
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/library.h"

#define DEFAULT_STREAMS \
        (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

struct call {
        const char *name;
        int version;
        const char *function;
};

static const struct call calls[] = {
#define CALL(name, version, function) {#name, version, #function},
#define PER_THREAD(name, version, function)
#include "driver/emulator/calls.def"
#undef CALL
#undef PER_THREAD
};

/* Calls whose NULL stream is the calling thread's own. */
static const struct call per_thread_calls[] = {
#define CALL(name, version, function)
#define PER_THREAD(name, version, function) {#name, version, #function},
#include "driver/emulator/calls.def"
#undef CALL
#undef PER_THREAD
};

/* The newest form that is not newer than the version. */
static CUdriverProcAddressQueryResult find_in(const struct call *list, size_t n, const char *name,
                                              int version, void **ret_function)
{
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

        for (size_t i = 0; i < n; i++) {
                void *function = strcmp(list[i].name, name) == 0
                                         ? dlsym(library_self(), list[i].function)
                                         : NULL;

                if (function && list[i].version <= version) {
                        *ret_function = function;
                        found = CU_GET_PROC_ADDRESS_SUCCESS;
                } else if (function && found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) {
                        found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
                }
        }
        return found;
}

/* A look-up of the form for the thread's own stream gives no other form of a call that has this one. */
static CUdriverProcAddressQueryResult find(const char *name, int version, cuuint64_t flags,
                                           void **ret_function)
{
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

        if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
                found = find_in(per_thread_calls, ARRAY_SIZE(per_thread_calls), name, version,
                                ret_function);
        if (found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
                found = find_in(calls, ARRAY_SIZE(calls), name, version, ret_function);
        return found;
}

EMULATOR_API CUresult CUDAAPI cuGetProcAddress(const char *name, void **ret_function, int version,
                                               cuuint64_t flags,
                                               CUdriverProcAddressQueryResult *ret_found)
{
        CUdriverProcAddressQueryResult found;
        void *function = NULL;

        if (!name || !ret_function || version > DRIVER_VERSION ||
            flags & ~(cuuint64_t)DEFAULT_STREAMS)
                return CUDA_ERROR_INVALID_VALUE;
        found = find(name, version, flags, &function);
        if (ret_found)
                *ret_found = found;
        *ret_function = function;
        return CUDA_SUCCESS;
}

/* There is none here. As the H200's driver says of a table that it does not know. */
EMULATOR_API CUresult CUDAAPI cuGetExportTable(const void **ret_table, const CUuuid *id)
{
        if (ret_table && id)
                *ret_table = NULL;
        return CUDA_ERROR_INVALID_VALUE;
}
