/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/available.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/fdset.h"
#include "client/blocks/binding.h"
#include "client/connection/reconnect.h"
#include "client/connection/rows.h"
#include "proto/proto.h"

static int find_row(struct pool *pool, uint64_t serial, const struct stats_row *rows, uint32_t n,
                    struct stats_row *ret_row)
{
        uint32_t id;
        int r = binding_find(pool, serial, &id);

        if (r)
                return r;
        for (uint32_t i = 0; i < n; i++) {
                if (rows[i].pool != id)
                        continue;
                *ret_row = rows[i];
                return 0;
        }
        return GPUMEM_E_NO_POOL;
}

static int ask(struct gpumem_client *client, struct pool *pool, struct stats_row *ret_row)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint64_t serial;
        void *rows;
        int r = reconnect_call(&client->reconnector, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY,
                               &reply, &fds, &serial);

        if (!r)
                r = rows_read(fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes,
                              sizeof(*ret_row), &rows);
        if (r)
                return r;
        r = find_row(pool, serial, rows, reply.stats_reply.n_rows, ret_row);
        free(rows);
        return r;
}

static uint64_t at_most(uint64_t n_bytes, uint64_t n_max_bytes)
{
        return n_bytes < n_max_bytes ? n_bytes : n_max_bytes;
}

/* More may be used than a limit that came later. */
static uint64_t less(uint64_t n_bytes, uint64_t n_used_bytes)
{
        return n_bytes > n_used_bytes ? n_bytes - n_used_bytes : 0;
}

int available_ask(struct gpumem_client *client, struct pool *pool, const struct gpumem_stats *stats,
                  uint64_t *ret_n_bytes)
{
        uint64_t n_bytes, n_max_bytes;
        struct stats_row row;
        int r = ask(client, pool, &row);

        if (r)
                return r;
        pthread_mutex_lock(&pool->lock);
        n_max_bytes = pool->limit.n_max_bytes;
        pthread_mutex_unlock(&pool->lock);
        /* device_free is UINT64_MAX if it is not known, and for pinned memory. */
        n_bytes = at_most(less(row.max, row.reserved), row.device_free) + row.cached +
                  less(stats->n_reserved_bytes, stats->n_allocated_bytes);
        *ret_n_bytes = at_most(n_bytes, less(n_max_bytes, stats->n_allocated_bytes));
        return 0;
}
