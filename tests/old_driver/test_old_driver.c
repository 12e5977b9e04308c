/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that lacks optional calls is loaded, and these are NULL. */
#include "driver/cuda.h"
#include "driver/vmm.h"
#include "gpumem.h"
#include "tests/contract/contract.h"

TEST(it_lacks_what_came_later)
{
        ck_assert(!contract_has("cuCtxRecordEvent"));
        ck_assert(contract_has("cuEventRecord"));
        ck_assert_ptr_null((void *)cu.cuCtxRecordEvent);
        ck_assert_ptr_nonnull((void *)cu.cuEventRecord);
}

TEST(it_has_no_dma_bufs)
{
        char reason[CUDA_REASON_MAX];
        struct cuda cuda;
        int fd = -77;

        ck_assert_msg(cuda_load(NULL, &cuda, reason) == 0, "%s", reason);
        ck_assert_int_eq(vmm_export_dma_buf(&cuda, 0, 4096, &fd), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(fd, -77);
}

TEST(it_is_loaded_and_used)
{
        char reason[CUDA_REASON_MAX];
        struct cuda cuda;
        CUevent event;

        ck_assert_msg(cuda_load(NULL, &cuda, reason) == 0, "%s", reason);
        ck_assert_ptr_null((void *)cuda.cuCtxRecordEvent);
        ck_assert_ptr_nonnull((void *)cuda.cuCtxGetId);
        (void)contract_context();
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventRecord, event, NULL), 0);
        ck_assert_int_eq(CUDA_CALL(&cuda, cuEventSynchronize, event), 0);
}

CONTRACT_MAIN("old driver")
