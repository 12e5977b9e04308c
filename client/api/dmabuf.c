/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_export_dmabuf: only memory whose block no other allocation gets can be given to other devices than GPUs. */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"
#include "driver/vmm.h"
#include "gpumem.h"

/* What is exported: whole pages of one allocation. */
struct exported {
        uint64_t address;
        uint64_t n_bytes;
};

static int refuse(int code, const char *text)
{
        last_error_set(code, text);
        return code;
}

static int refuse_range(uint64_t n_bytes, uint64_t n_there_bytes)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "n_bytes is %llu; allowed are 1 to %llu, which the allocation has from "
                       "`pointer` on",
                       (unsigned long long)n_bytes, (unsigned long long)n_there_bytes);
        return refuse(GPUMEM_E_BAD_REQUEST, text);
}

static int refuse_start(const void *pointer, uint64_t n_page_bytes)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "the pointer is %p; a dma-buf begins at a multiple of %llu bytes, as "
                       "registered allocations do",
                       pointer, (unsigned long long)n_page_bytes);
        return refuse(GPUMEM_E_BAD_REQUEST, text);
}

/* Is it in an ordinary allocation, in a heap? */
static bool is_in_heap(struct gpumem_client *client, const void *pointer)
{
        struct gpumem_info info;
        struct pool *pool;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (pool_describe(pool, pointer, &info) == 0)
                        return true;
        }
        return false;
}

static int find(struct gpumem_client *client, const void *pointer, const struct pool **ret_pool,
                struct shared_alloc_info *ret_info, uint64_t *ret_n_bytes)
{
        struct pool *pool;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (shared_alloc_find_within(pool, pointer, ret_info, ret_n_bytes) == 0) {
                        *ret_pool = pool;
                        return 0;
                }
        }
        return is_in_heap(client, pointer)
                       ? refuse(GPUMEM_E_UNSUPPORTED,
                                "the memory is in a block that is reused; only memory that was "
                                "allocated with GPUMEM_REGISTERED can be exported")
                       : GPUMEM_E_NOT_OURS;
}

static int check_memory(const struct pool *pool, const struct shared_alloc_info *info)
{
        if (info->kind == SHARED_ALLOC_ATTACHED)
                return refuse(
                        GPUMEM_E_UNSUPPORTED,
                        "the memory is attached; the process that allocated it can export it");
        if (pool->memory.kind != GPUMEM_DEVICE)
                return refuse(GPUMEM_E_UNSUPPORTED,
                              "the memory is pinned; network adapters register it by its address");
        if (!(info->properties & PROTO_PROPERTY_REGISTERED))
                return refuse(GPUMEM_E_UNSUPPORTED,
                              "the memory was allocated without GPUMEM_REGISTERED");
        return 0;
}

/* The block goes on to its end in whole granules, so the last page is the allocation's, too. */
static int choose_pages(const void *pointer, uint64_t n_bytes, uint64_t n_there_bytes,
                        struct exported *ret_exported)
{
        uint64_t n_page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        uint64_t address = (uint64_t)(uintptr_t)pointer;

        if (!n_bytes || n_bytes > n_there_bytes)
                return refuse_range(n_bytes, n_there_bytes);
        if (address % n_page_bytes)
                return refuse_start(pointer, n_page_bytes);
        ret_exported->address = address;
        return size_round_up(n_bytes, n_page_bytes, &ret_exported->n_bytes);
}

static int export(struct gpumem_client *client, const void *pointer, uint64_t n_bytes, int *ret_fd)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct shared_alloc_info info = {.n_bytes = 0};
        struct exported exported = {.n_bytes = 0};
        const struct pool *pool = NULL;
        uint64_t n_there_bytes = 0;
        int r = find(client, pointer, &pool, &info, &n_there_bytes);

        if (!r)
                r = check_memory(pool, &info);
        if (!r)
                r = choose_pages(pointer, n_bytes, n_there_bytes, &exported);
        if (r)
                return r;
        r = vmm_export_dma_buf(client_cuda(client), exported.address, exported.n_bytes, ret_fd);
        return r == GPUMEM_E_UNSUPPORTED ? refuse(r, "the driver, or the device, has no dma-bufs; "
                                                     "they need the driver's open kernel module")
                                         : r;
}

int gpumem_export_dmabuf(struct gpumem_client *client, const void *pointer, uint64_t n_bytes,
                         int *ret_fd)
{
        int r = client_enter_present(&client);

        if (r)
                return r;
        last_error_clear();
        r = export(client, pointer, n_bytes, ret_fd);
        if (r)
                last_error_keep_of_attach(client_number(client), r);
        return r;
}
