/* SPDX-License-Identifier: Apache-2.0 */
/* A primary context's state and flags, and what is left of it when it is reset. */
#include "tests/contract/contract.h"

#define INVALID   CUDA_ERROR_INVALID_VALUE
#define DESTROYED CUDA_ERROR_CONTEXT_IS_DESTROYED
#define BLOCKING  CU_CTX_SCHED_BLOCKING_SYNC

static void check_state(unsigned flags, int is_active)
{
        unsigned found_flags = 77;
        int found_active = 77;

        ck_ok(cu.cuDevicePrimaryCtxGetState(0, &found_flags, &found_active));
        ck_assert_uint_eq(found_flags, flags);
        ck_assert_int_eq(found_active, is_active);
}

TEST(a_primary_context_is_active_while_it_is_retained)
{
        CUcontext context;

        contract_init();
        check_state(0, 0);
        ck_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
        check_state(0, 1);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        check_state(0, 0);
}

TEST(flags_are_set_before_and_after)
{
        unsigned flags = 0;

        contract_init();
        ck_ok(cu.cuDevicePrimaryCtxSetFlags(0, BLOCKING));
        check_state(BLOCKING, 0);
        (void)contract_context();
        check_state(BLOCKING, 1);
        ck_ok(cu.cuCtxGetFlags(&flags));
        ck_assert_uint_eq(flags, BLOCKING | CU_CTX_MAP_HOST);
        ck_ok(cu.cuDevicePrimaryCtxSetFlags(0, CU_CTX_SYNC_MEMOPS));
        check_state(CU_CTX_SYNC_MEMOPS, 1);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        check_state(0, 0);
}

TEST(flags_that_are_none_are_refused)
{
        contract_init();
        ck_cuda(INVALID, cu.cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD));
        ck_cuda(INVALID, cu.cuDevicePrimaryCtxSetFlags(0, CU_CTX_MAP_HOST));
        ck_cuda(INVALID, cu.cuDevicePrimaryCtxSetFlags(0, 0x100));
        check_state(0, 0);
}

TEST(states_are_asked_for_properly)
{
        unsigned flags;
        int is_active;

        contract_init();
        ck_cuda(INVALID, cu.cuDevicePrimaryCtxGetState(0, NULL, &is_active));
        ck_cuda(INVALID, cu.cuDevicePrimaryCtxGetState(0, &flags, NULL));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxGetState(999, &flags, &is_active));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxSetFlags(999, 0));
        ck_cuda(CUDA_ERROR_INVALID_DEVICE, cu.cuDevicePrimaryCtxReset(999));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxGetFlags(&flags));
        (void)contract_context();
        ck_cuda(INVALID, cu.cuCtxGetFlags(NULL));
}

TEST(a_reset_ends_it_for_all_who_retained_it)
{
        CUcontext context = contract_context(), current;
        CUdeviceptr address, another;
        unsigned long long id = 0;

        ck_ok(cu.cuDevicePrimaryCtxRetain(&current, 0));
        ck_ok(cu.cuDevicePrimaryCtxSetFlags(0, BLOCKING));
        address = contract_alloc(4096);
        ck_ok(cu.cuDevicePrimaryCtxReset(0));
        check_state(0, 0);
        ck_ok(cu.cuCtxGetCurrent(&current));
        ck_assert_ptr_eq(current, context);
        ck_cuda(DESTROYED, cu.cuCtxSynchronize());
        ck_cuda(DESTROYED, cu.cuMemAlloc(&another, 4096));
        ck_cuda(DESTROYED, cu.cuMemFree(address));
        ck_cuda(DESTROYED, cu.cuCtxGetId(NULL, &id));
}

/* Each retain is still released. */
TEST(a_reset_releases_nothing)
{
        CUcontext context = contract_context(), again;

        ck_ok(cu.cuDevicePrimaryCtxReset(0));
        ck_ok(cu.cuDevicePrimaryCtxRetain(&again, 0));
        ck_assert_ptr_eq(again, context);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        check_state(0, 1);
        ck_ok(cu.cuDevicePrimaryCtxRelease(0));
        check_state(0, 0);
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease(0));
        ck_ok(cu.cuDevicePrimaryCtxReset(0));
}

/* With an id of its own, and none of the memory. */
TEST(a_context_that_comes_back_is_current_still)
{
        unsigned long long first = 0, second = 0;
        CUcontext context = contract_context();
        CUdeviceptr address = contract_alloc(4096);

        ck_ok(cu.cuCtxGetId(NULL, &first));
        ck_ok(cu.cuDevicePrimaryCtxReset(0));
        ck_ok(cu.cuDevicePrimaryCtxRetain(&context, 0));
        ck_ok(cu.cuCtxSynchronize());
        ck_ok(cu.cuCtxGetId(NULL, &second));
        ck_assert_uint_ne(first, second);
        ck_cuda(INVALID, cu.cuMemFree(address));
}

CONTRACT_MAIN("contexts")
