/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of a connection, beside a thread that sets the size of what is empty. */
#include "client/pool/pool_rebinding.h"

#include <stdlib.h>

#include "client/pool/pool.h"
#include "client/runtime/service_thread.h"
#include "proto/board.h"
#include "tests/suite.h"

static struct pool pools[PROTO_POOLS_MAX];
static _Atomic uint32_t n_pools;
static _Atomic uint64_t n_cache_bytes;
static struct streams streams;
static struct after_call after_call;
static struct service_thread service;

/* The other thread sets the size while the pool is made: it does not see the pool yet. */
static CUresult CUDAAPI count_devices(int *ret_count)
{
        ck_assert_uint_eq(n_pools, 0);
        n_cache_bytes = 16 * MIB;
        *ret_count = 0;
        return CUDA_SUCCESS;
}

static const struct cuda cuda = {.cuDeviceGetCount = count_devices};

TEST(a_pool_that_is_made_beside_has_the_size)
{
        struct pool_row row = {.kind = GPUMEM_DEVICE, .n_capacity_bytes = GIB};
        struct connection connection = {
                .serial = 1, .n_slots = 16, .rows = &row, .n_rows = 1, .n_board_bytes = 4 * KIB};
        const struct pool_set set = {.pools = pools,
                                     .n_pools = &n_pools,
                                     .cuda = &cuda,
                                     .service = &service,
                                     .streams = &streams,
                                     .fraction = 1,
                                     .n_limit_bytes = UINT64_MAX,
                                     .n_cache_bytes = &n_cache_bytes};

        n_cache_bytes = UINT64_MAX;
        connection.board = calloc(1, board_bytes(1, connection.n_slots));
        ck_assert_ptr_nonnull(connection.board);
        ck_assert_int_eq(streams_init(&streams, &after_call), 0);
        ck_assert_int_eq(pool_rebinding_attach(&set, &connection), 0);
        ck_assert_uint_eq(n_pools, 1);
        ck_assert_uint_eq(pools[0].heap_set.budget.n_empty_max, 16 * MIB);
        pool_deinit(&pools[0]);
        streams_deinit(&streams);
        free(connection.board);
}

TESTS_MAIN("pool_rebinding")
