/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/listed.h"

#include "client/connection/rows.h"
#include "tests/live/support/links.h"
#include "tests/live/support/world.h"

static size_t row_bytes(enum message_kind kind)
{
        if (kind == MESSAGE_CLIENTS)
                return sizeof(struct client_row);
        return kind == MESSAGE_BLOCKS ? sizeof(struct block_row) : sizeof(struct tenant_row);
}

struct listed listed_fetch(struct link *link, enum message_kind kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct listed listed = {.n_rows = 0};
        void *pools;

        if (kind == MESSAGE_BLOCKS)
                request.blocks.pool = PROTO_ALL_POOLS;
        ck_assert_int_eq(
                link_call(link, &request, kind, (enum message_kind)(kind | ANSWER), &reply, &fds),
                0);
        ck_assert_uint_eq(fds.n, 2);
        listed.n_rows = reply.clients_reply.n_rows;
        if (listed.n_rows)
                ck_assert_int_eq(rows_read(fds.fds[0], listed.n_rows,
                                           reply.clients_reply.n_row_bytes, row_bytes(kind),
                                           &listed.rows),
                                 0);
        listed.n_pools = reply.clients_reply.n_pools;
        ck_assert_int_eq(rows_read(fds.fds[1], listed.n_pools, reply.clients_reply.n_pool_bytes,
                                   sizeof(*listed.pools), &pools),
                         0);
        listed.pools = pools;
        fdset_deinit(&fds);
        return listed;
}

struct listed listed_now(enum message_kind kind)
{
        struct link *link = open_link("listing", NULL);
        struct listed listed = listed_fetch(link, kind);

        link_free(link);
        return listed;
}

void listed_free(struct listed *listed)
{
        free(listed->rows);
        free(listed->pools);
}

static void expect_clients(struct link *link, uint64_t n_bytes)
{
        struct listed listed = listed_fetch(link, MESSAGE_CLIENTS);
        const struct client_row *others = &listed.clients[1];

        ck_assert_uint_eq(listed.n_rows, 2);
        ck_assert_uint_eq(listed.clients[0].uid, geteuid());
        ck_assert_uint_eq(others->state, LISTED_OTHERS);
        ck_assert_uint_eq(others->pid, 0);
        ck_assert_uint_eq(others->uid, LISTING_NOBODY);
        ck_assert_uint_eq(others->clients, 1);
        ck_assert_uint_eq(others->connected, LISTING_UNTOLD);
        ck_assert_str_eq(others->program, "(other tenants)");
        ck_assert_str_eq(others->container, "");
        ck_assert_uint_eq(others->device_leased, n_bytes);
        listed_free(&listed);
}

static void expect_blocks(struct link *link, uint64_t n_bytes, unsigned n_blocks)
{
        struct listed listed = listed_fetch(link, MESSAGE_BLOCKS);
        const struct block_row *sum = listed.blocks;

        ck_assert_uint_eq(listed.n_rows, 1);
        ck_assert_uint_eq(sum->state, LISTED_SUM);
        ck_assert_uint_eq(sum->block, 0);
        ck_assert_uint_eq(sum->pid, 0);
        ck_assert_uint_eq(sum->lease, 0);
        ck_assert_uint_eq(sum->uid, LISTING_NOBODY);
        ck_assert_uint_eq(sum->age, LISTING_UNTOLD);
        ck_assert_uint_eq(sum->bytes, n_bytes);
        ck_assert_uint_eq(sum->blocks, n_blocks);
        listed_free(&listed);
}

void listed_expect_sums(struct link *link, uint64_t n_bytes, unsigned n_blocks)
{
        struct listed listed = listed_fetch(link, MESSAGE_TENANTS);
        const struct tenant_row *sum = &listed.tenants[listed.n_rows - listed.n_pools];

        expect_clients(link, n_bytes);
        expect_blocks(link, n_bytes, n_blocks);
        ck_assert_uint_eq(listed.n_rows, 2 * listed.n_pools);
        ck_assert_uint_eq(sum->uid, LISTING_NOBODY);
        ck_assert_str_eq(sum->container, "");
        ck_assert_uint_eq(sum->reserved, n_bytes);
        ck_assert_uint_eq(sum->reserved_peak, LISTING_UNTOLD);
        listed_free(&listed);
}
