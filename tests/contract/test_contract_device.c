/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, errors and contexts. */
#include <string.h>

#include "base/err.h"
#include "tests/contract/contract.h"

#define INVALID CUDA_ERROR_INVALID_VALUE
#define LARGE   ((size_t)128 << 20)

TEST(version_is_known_before_init)
{
        int version = 0;

        ck_ok(cu.cuDriverGetVersion(&version));
        ck_assert_int_ge(version, 13000);
        ck_cuda(INVALID, cu.cuDriverGetVersion(NULL));
}

TEST(errors_have_names_and_texts)
{
        static const struct {
                CUresult result;
                const char *name;
        } expected[] = {
                {CUDA_SUCCESS, "CUDA_SUCCESS"},
                {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
                {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
                {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
                {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
                {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                 "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
                {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        };
        const char *text;

        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                ck_ok(cu.cuGetErrorName(expected[i].result, &text));
                ck_assert_str_eq(text, expected[i].name);
                ck_ok(cu.cuGetErrorString(expected[i].result, &text));
                ck_assert_uint_gt(strlen(text), 0);
        }
        ck_ok(cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
        ck_assert_str_eq(text, "out of memory");
        ck_cuda(INVALID, cu.cuGetErrorName((CUresult)123456, &text));
}

TEST(devices_are_counted_and_named)
{
        CUdevice device = -1;
        CUuuid uuid = {0}, none = {0};
        size_t n_bytes = 0;
        char name[64] = "";
        int n = 0;

        contract_init();
        ck_ok(cu.cuDeviceGetCount(&n));
        ck_assert_int_gt(n, 0);
        ck_ok(cu.cuDeviceGet(&device, n - 1));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, n));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, -1));
        ck_ok(cu.cuDeviceGetName(name, sizeof(name), 0));
        ck_assert_uint_gt(strlen(name), 0);
        ck_ok(cu.cuDeviceGetUuid(&uuid, 0));
        ck_assert_mem_ne(&uuid, &none, sizeof(uuid));
        ck_ok(cu.cuDeviceTotalMem(&n_bytes, 0));
        ck_assert_uint_ge(n_bytes, LARGE);
}

TEST(the_device_can_what_is_needed)
{
        static const CUdevice_attribute needed[] = {
                CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
                CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        };
        int value;

        contract_init();
        for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
                ck_ok(cu.cuDeviceGetAttribute(&value, needed[i], 0));
                ck_assert_msg(value == 1, "attribute %d is %d", (int)needed[i], value);
        }
        ck_ok(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
        ck_assert_int_eq(value, 9);
        ck_ok(cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        ck_assert_int_gt(value, 0);
        ck_cuda(CUDA_ERROR_INVALID_DEVICE,
                cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 999));
        ck_cuda(INVALID, cu.cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
}

TEST(every_attribute_has_a_value)
{
        CUdevice_attribute last = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;
        int value;

        contract_init();
        for (int i = 1; i <= (int)last; i++)
                ck_assert_msg(cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)i, 0) ==
                                      CUDA_SUCCESS,
                              "attribute %d", i);
}

TEST(what_is_no_attribute_is_refused)
{
        static const int numbers[] = {-1, 0, 10000};
        int value = 7;

        contract_init();
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                ck_cuda(INVALID,
                        cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)numbers[i], 0));
        ck_assert_int_eq(value, 7);
}

/* What every device of compute capability 9.0 has. */
TEST(attributes_are_those_of_the_capability)
{
        static const struct {
                CUdevice_attribute attribute;
                int value;
        } expected[] = {
                {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
                {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
                {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
                {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
                {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
                {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
                {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
                {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
        };
        int value;

        contract_init();
        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                ck_ok(cu.cuDeviceGetAttribute(&value, expected[i].attribute, 0));
                ck_assert_msg(value == expected[i].value, "attribute %d is %d",
                              (int)expected[i].attribute, value);
        }
}

/* And what it does not deny is there. */
static CUresult promised(CUdevice_attribute attribute)
{
        int value = -1;

        ck_ok(cu.cuDeviceGetAttribute(&value, attribute, 0));
        return value ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

TEST(what_the_device_denies_is_refused)
{
        CUdeviceptr address;
        CUmemoryPool pool;

        (void)contract_context();
        ck_cuda(promised(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
                cu.cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_GLOBAL));
        ck_cuda(promised(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
                cu.cuDeviceGetDefaultMemPool(&pool, 0));
}

TEST(code_that_is_none_is_not_loaded)
{
        CUmodule module;

        (void)contract_context();
        ck_assert_int_ne(cu.cuModuleLoadData(&module, "none"), CUDA_SUCCESS);
}

TEST(calls_that_need_a_context_say_so)
{
        const CUresult none = CUDA_ERROR_INVALID_CONTEXT;
        CUdeviceptr address;
        CUstream stream;
        CUevent event;
        CUdevice device;
        size_t n_free, n_total;
        char bytes[8];
        void *host;

        contract_init();
        ck_cuda(none, cu.cuCtxGetDevice(&device));
        ck_cuda(none, cu.cuCtxSynchronize());
        ck_cuda(none, cu.cuMemAlloc(&address, 4096));
        ck_cuda(none, cu.cuMemGetInfo(&n_free, &n_total));
        ck_cuda(none, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        ck_cuda(none, cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        ck_cuda(none, cu.cuMemHostAlloc(&host, 4096, 0));
        ck_cuda(none, cu.cuMemHostRegister(bytes, sizeof(bytes), 0));
        ck_cuda(none, cu.cuStreamSynchronize(NULL));
        ck_cuda(none, cu.cuCtxPopCurrent(NULL));
        ck_cuda(none, cu.cuCtxGetStreamPriorityRange(NULL, NULL));
        ck_cuda(none, cu.cuMemAllocHost(&host, 4096));
}

TEST(memory_is_given_back_without_a_context)
{
        CUdeviceptr address;
        char bytes[4096];
        void *host;

        (void)contract_context();
        address = contract_alloc(4096);
        ck_ok(cu.cuMemHostAlloc(&host, 4096, 0));
        ck_ok(cu.cuMemHostRegister(bytes, sizeof(bytes), 0));
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_ok(cu.cuMemFree(address));
        ck_ok(cu.cuMemFreeHost(host));
        ck_ok(cu.cuMemHostUnregister(bytes));
        ck_cuda(INVALID, cu.cuMemFree(address));
        ck_cuda(INVALID, cu.cuMemFreeHost(host));
        ck_ok(cu.cuMemFreeHost(NULL));
        ck_cuda(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(bytes));
}

TEST(a_primary_context_is_one_and_counted)
{
        CUcontext second, current;
        CUdevice device = -1;
        CUcontext first = contract_context();

        ck_ok(cu.cuDevicePrimaryCtxRetain(&second, 0));
        ck_assert_ptr_eq(first, second);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        ck_ok(cu.cuCtxSynchronize());
        ck_ok(cu.cuCtxGetCurrent(&current));
        ck_assert_ptr_eq(current, first);
        ck_ok(cu.cuCtxGetDevice(&device));
        ck_assert_int_eq(device, 0);
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxRetain(&second, 999));
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_ok(cu.cuCtxGetCurrent(&current));
        ck_assert_ptr_null(current);
}

TEST(contexts_are_stacked_and_told_apart)
{
        CUcontext primary = contract_context(), created, popped;
        unsigned long long first = 0, second = 0;

        ck_ok(cu.cuCtxCreate(&created, NULL, 0, 0));
        ck_assert_ptr_ne(primary, created);
        ck_ok(cu.cuCtxGetId(primary, &first));
        ck_ok(cu.cuCtxGetId(created, &second));
        ck_assert_uint_ne(first, second);
        ck_ok(cu.cuCtxPopCurrent(&popped));
        ck_assert_ptr_eq(popped, created);
        ck_ok(cu.cuCtxGetCurrent(&popped));
        ck_assert_ptr_eq(popped, primary);
        ck_ok(cu.cuCtxPushCurrent(created));
        ck_ok(cu.cuCtxGetId(NULL, &first));
        ck_assert_uint_eq(first, second);
        ck_ok(cu.cuCtxDestroy(created));
        ck_ok(cu.cuCtxGetCurrent(&popped));
        ck_assert_ptr_eq(popped, primary);
}

TEST(memory_of_a_context_ends_with_it)
{
        size_t n_before, n_held;
        CUdeviceptr address;
        CUcontext created;

        (void)contract_context();
        ck_ok(cu.cuCtxCreate(&created, NULL, 0, 0));
        n_before = contract_free_bytes();
        ck_ok(cu.cuMemAlloc(&address, LARGE));
        n_held = contract_free_bytes();
        ck_assert_uint_le(n_held, n_before - LARGE);
        ck_ok(cu.cuCtxDestroy(created));
        ck_assert_uint_ge(contract_free_bytes(), n_held + LARGE);
}

CONTRACT_MAIN("device")
