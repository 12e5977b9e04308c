/* SPDX-License-Identifier: Apache-2.0 */
/* CLIENTS, BLOCKS and TENANTS against a daemon of the test's own: the holders, sums that agree at any time,
 * and which clients may see them. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "tests/live/support/listed.h"
#include "tests/live/worlds/solo.h"

#define SOMEBODY_ELSE 65534

static void start(void)
{
        daemon_start(&gpumemd, "devices=2,bytes=256MiB", OPTIONS("--pinned-bytes", "64MiB"));
        daemon_note_fds(&gpumemd);
        solo_open(getuid());
}

/* A process that leases `n_bytes` and closes its connection, but keeps the memory mapped until it
 * is killed. */
static pid_t start_lingerer(uint64_t n_bytes)
{
        pid_t pid = fork();

        if (pid == 0) {
                const struct message_lease wanted = {.n_bytes = n_bytes};
                struct link *link = open_link("lingerer", NULL);
                struct message_leased leased;

                ck_assert_int_eq(lease_over(link, &wanted, &leased), 0);
                (void)link_free(link);
                (void)pause();
                _exit(0);
        }
        daemon_await(FIGURE_lingering, n_bytes);
        return pid;
}

static const struct client_row *row_of(const struct listed *listed, pid_t pid, const char *program)
{
        for (uint32_t i = 0; i < listed->n_rows; i++) {
                if (listed->clients[i].pid == (uint32_t)pid &&
                    strcmp(listed->clients[i].program, program) == 0)
                        return &listed->clients[i];
        }
        ck_abort_msg("no row of %d (%s)", (int)pid, program);
}

TEST(a_client_is_listed_with_what_it_holds)
{
        void *small = must_alloc(GPUMEM_DEVICE, 1000);
        void *large = must_alloc(GPUMEM_DEVICE, 5 * MIB);
        void *pinned = must_alloc(GPUMEM_PINNED, 3 * MIB);
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        const struct client_row *row = row_of(&listed, getpid(), program_invocation_short_name);

        ck_assert_uint_eq(row->uid, geteuid());
        ck_assert_uint_eq(row->state, LISTED_READY);
        /* The second one begins in the block of the first. */
        ck_assert_uint_eq(row->device_leased, 8 * MIB);
        ck_assert_uint_eq(row->device_charged, 8 * MIB);
        ck_assert_uint_eq(row->device_lingering, 0);
        ck_assert_uint_eq(row->device_requested, 1000 + 5 * MIB);
        ck_assert_uint_eq(row->device_allocated, 1024 + 5 * MIB);
        ck_assert_uint_eq(row->device_misses, 2);
        ck_assert_uint_eq(row->pinned_leased, 4 * MIB);
        ck_assert_uint_eq(row->pinned_requested, 3 * MIB);
        ck_assert_uint_eq(row->pinned_misses, 1);
        listed_free(&listed);
        must_free(large);
        must_free(pinned);
        listed = listed_now(MESSAGE_CLIENTS);
        row = row_of(&listed, getpid(), program_invocation_short_name);
        ck_assert_uint_eq(row->device_leased, 2 * MIB);
        ck_assert_uint_eq(row->device_requested_peak, 1000 + 5 * MIB);
        ck_assert_uint_eq(row->pinned_leased, 0);
        listed_free(&listed);
        must_free(small);
}

TEST(what_one_who_left_may_still_map_is_listed_as_its)
{
        pid_t pid = start_lingerer(6 * MIB);
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        const struct client_row *row = row_of(&listed, pid, "lingerer");

        ck_assert_uint_eq(row->state, LISTED_LEFT);
        ck_assert_uint_eq(row->device_lingering, 6 * MIB);
        ck_assert_uint_eq(row->device_charged, 6 * MIB);
        ck_assert_uint_eq(row->device_leased, 0);
        listed_free(&listed);
        child_kill(pid);
        daemon_await(FIGURE_charged, 0);
}

TEST(blocks_are_listed_by_state_and_owner)
{
        void *held = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        void *given = must_alloc(GPUMEM_PINNED, 2 * MIB);
        pid_t pid = start_lingerer(4 * MIB);
        struct listed listed;
        unsigned seen = 0;

        must_free(given);
        listed = listed_now(MESSAGE_BLOCKS);
        ck_assert_uint_eq(listed.n_rows, 3);
        for (uint32_t i = 0; i < listed.n_rows; i++) {
                const struct block_row *row = &listed.blocks[i];
                bool is_leased = row->state == LISTED_LEASED,
                     is_cached = row->state == LISTED_CACHED;

                ck_assert_uint_ne(row->block, 0);
                ck_assert_uint_eq(row->uid, geteuid());
                ck_assert_uint_eq(row->blocks, 1);
                ck_assert_uint_ge(row->age, row->state_age);
                seen |= 1u << row->state;
                ck_assert_uint_eq(row->holders, is_leased);
                ck_assert_uint_eq(row->kind, is_cached ? GPUMEM_PINNED : GPUMEM_DEVICE);
                ck_assert_uint_eq(row->bytes, (is_cached ? 2 : 4) * MIB);
                ck_assert_uint_eq(row->pid, (uint32_t)(is_cached ? 0 : is_leased ? getpid() : pid));
                if (is_leased || is_cached)
                        ck_assert(is_leased == (row->lease != 0));
        }
        ck_assert_uint_eq(seen, 1u << LISTED_LEASED | 1u << LISTED_CACHED | 1u << LISTED_LINGERING);
        listed_free(&listed);
        child_kill(pid);
        must_free(held);
}

static void check_clients(const struct listed *listed)
{
        struct client_row sum = {.pid = 0};
        struct stats_row device = {.pool = 0}, pinned = {.pool = 0};

        for (uint32_t i = 0; i < listed->n_rows; i++) {
                const struct client_row *row = &listed->clients[i];

                ck_assert_uint_eq(row->device_charged, row->device_leased + row->device_lingering +
                                                               row->device_declared);
                ck_assert_uint_eq(row->device_kept, 0);
                ck_assert_uint_eq(row->pinned_charged, row->pinned_leased + row->pinned_lingering +
                                                               row->pinned_declared +
                                                               row->pinned_kept);
                ck_assert_uint_le(row->device_idle, row->device_leased);
                sum.device_leased += row->device_leased;
                sum.device_idle += row->device_idle;
                sum.pinned_idle += row->pinned_idle;
                sum.device_charged += row->device_charged;
                sum.pinned_leased += row->pinned_leased;
                sum.pinned_charged += row->pinned_charged;
        }
        for (uint32_t i = 0; i < listed->n_pools; i++) {
                const struct stats_row *pool = &listed->pools[i];
                struct stats_row *of_kind = pool->kind == GPUMEM_DEVICE ? &device : &pinned;

                of_kind->reserved += pool->reserved;
                of_kind->cached += pool->cached;
                of_kind->idle += pool->idle;
                of_kind->lingering += pool->lingering;
                of_kind->charged += pool->charged;
        }
        ck_assert_uint_eq(sum.device_leased + device.cached + device.lingering, device.reserved);
        ck_assert_uint_eq(sum.pinned_leased + pinned.cached + pinned.lingering, pinned.reserved);
        ck_assert_uint_eq(sum.device_idle, device.idle);
        ck_assert_uint_eq(sum.pinned_idle, pinned.idle);
        ck_assert_uint_eq(sum.device_charged, device.charged);
        ck_assert_uint_eq(sum.pinned_charged, pinned.charged);
}

static void check_blocks(const struct listed *listed)
{
        for (uint32_t pool = 0; pool < listed->n_pools; pool++) {
                uint64_t sums[LISTED_IDLE + 1] = {0};

                for (uint32_t i = 0; i < listed->n_rows; i++) {
                        if (listed->blocks[i].pool == pool)
                                sums[listed->blocks[i].state] += listed->blocks[i].bytes;
                }
                ck_assert_uint_eq(sums[LISTED_LEASED] + sums[LISTED_IDLE],
                                  listed->pools[pool].leased);
                ck_assert_uint_eq(sums[LISTED_IDLE], listed->pools[pool].idle);
                ck_assert_uint_eq(sums[LISTED_CACHED], listed->pools[pool].cached);
                ck_assert_uint_eq(sums[LISTED_LINGERING], listed->pools[pool].lingering);
        }
}

static void check_tenants(const struct listed *listed)
{
        for (uint32_t pool = 0; pool < listed->n_pools; pool++) {
                uint64_t n_reserved = 0, n_charged = 0, n_idle = 0;

                for (uint32_t i = 0; i < listed->n_rows; i++) {
                        const struct tenant_row *row = &listed->tenants[i];

                        if (row->pool != pool)
                                continue;
                        ck_assert_uint_eq(row->reserved,
                                          row->leased + row->cached + row->lingering);
                        ck_assert_uint_ge(row->reserved_peak, row->reserved);
                        n_idle += row->idle;
                        n_reserved += row->reserved;
                        n_charged += row->charged;
                }
                ck_assert_uint_eq(n_idle, listed->pools[pool].idle);
                ck_assert_uint_eq(n_reserved, listed->pools[pool].reserved);
                ck_assert_uint_eq(n_charged, listed->pools[pool].charged);
        }
}

struct churner {
        unsigned seed;
        _Atomic bool *over;
};

static void *churn(void *argument)
{
        struct churner *churner = argument;
        void *held[8] = {NULL};

        ck_assert_int_eq(gpu_use(gpu), 0);
        for (unsigned round = 0; !atomic_load(churner->over); round++) {
                unsigned slot = (unsigned)rand_r(&churner->seed) % 8;
                enum gpumem_kind kind = rand_r(&churner->seed) % 4 ? GPUMEM_DEVICE : GPUMEM_PINNED;

                must_free(held[slot]);
                held[slot] = must_alloc(kind, 1 + (unsigned)rand_r(&churner->seed) % (4 * MIB));
                if (round % 64 == 0)
                        (void)gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL);
        }
        for (unsigned slot = 0; slot < 8; slot++)
                must_free(held[slot]);
        return NULL;
}

#define N_SNAPSHOTS 200

TEST(sums_agree_at_any_moment)
{
        _Atomic bool over = false;
        struct churner churners[2] = {{1, &over}, {2, &over}};
        struct link *link = open_link("looker", NULL);
        pthread_t threads[2];

        for (unsigned i = 0; i < 2; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
        for (unsigned i = 0; i < N_SNAPSHOTS; i++) {
                struct listed clients = listed_fetch(link, MESSAGE_CLIENTS);
                struct listed blocks = listed_fetch(link, MESSAGE_BLOCKS);
                struct listed tenants = listed_fetch(link, MESSAGE_TENANTS);

                check_clients(&clients);
                check_blocks(&blocks);
                check_tenants(&tenants);
                listed_free(&clients);
                listed_free(&blocks);
                listed_free(&tenants);
        }
        atomic_store(&over, true);
        for (unsigned i = 0; i < 2; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_gt(daemon_figure(FIGURE_creates), 2);
        link_free(link);
}

static uint64_t tenant_peak(enum gpumem_kind kind)
{
        struct listed listed = listed_now(MESSAGE_TENANTS);
        uint64_t peak = 0;

        for (uint32_t i = 0; i < listed.n_rows; i++) {
                if (listed.tenants[i].kind == (uint32_t)kind)
                        peak += listed.tenants[i].reserved_peak;
        }
        listed_free(&listed);
        return peak;
}

static int reset_peaks(const char *socket, uint32_t scope, uint32_t pool)
{
        struct link *link = open_link_at(socket, "reset", NULL);
        int r = reset_peaks_over(link, scope, pool);

        link_free(link);
        return r;
}

TEST(peaks_begin_anew)
{
        void *small = must_alloc(GPUMEM_DEVICE, 1000);
        void *large = must_alloc(GPUMEM_DEVICE, 20 * MIB);

        must_free(large);
        daemon_await(FIGURE_leased, 2 * MIB);
        daemon_free_all();
        ck_assert_uint_eq(tenant_peak(GPUMEM_DEVICE), 22 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved_peak), 22 * MIB);
        ck_assert_int_eq(reset_peaks(NULL, PROTO_SCOPE_TENANT, 1), 0);
        ck_assert_uint_eq(tenant_peak(GPUMEM_DEVICE), 22 * MIB);
        ck_assert_int_eq(reset_peaks(NULL, PROTO_SCOPE_TENANT, 0), 0);
        ck_assert_uint_eq(tenant_peak(GPUMEM_DEVICE), 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved_peak), 22 * MIB);
        ck_assert_int_eq(reset_peaks(daemon_admin_socket(), PROTO_SCOPE_NODE, PROTO_ALL_POOLS), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved_peak), 2 * MIB);
        ck_assert_int_eq(reset_peaks(daemon_admin_socket(), PROTO_SCOPE_NODE, 99),
                         GPUMEM_E_NO_POOL);
        must_free(small);
}

/* The row of other tenants says of each pool what `own`, the only other tenant's rows, say. */
static void compare_others(const void *argument)
{
        const struct listed *own = argument;
        struct listed seen = listed_now(MESSAGE_TENANTS);

        ck_assert_uint_eq(seen.n_rows, 2 * own->n_rows);
        for (uint32_t i = 0; i < own->n_rows; i++) {
                struct tenant_row wanted = own->tenants[i];
                const struct tenant_row *row = &seen.tenants[own->n_rows + i];

                wanted.uid = LISTING_NOBODY;
                memset(wanted.container, 0, sizeof(wanted.container));
                wanted.reserved_peak = row->reserved_peak;
                wanted.clients = row->clients;
                ck_assert_mem_eq(&wanted, row, sizeof(wanted));
        }
}

TEST(sums_over_others_are_whole, NEEDS_ROOT)
{
        void *held = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        pid_t lingerer = start_lingerer(6 * MIB);
        struct listed own;

        must_free(must_alloc(GPUMEM_DEVICE, 8 * MIB));
        daemon_await(FIGURE_cached, 8 * MIB);
        own = listed_now(MESSAGE_TENANTS);
        ck_assert_uint_eq(own.tenants[0].leased, 4 * MIB);
        ck_assert_uint_eq(own.tenants[0].cached, 8 * MIB);
        ck_assert_uint_eq(own.tenants[0].lingering, 6 * MIB);
        daemon_admit_all(&gpumemd);
        as_user(SOMEBODY_ELSE, compare_others, &own);
        listed_free(&own);
        child_kill(lingerer);
        daemon_await(FIGURE_lingering, 0);
        must_free(held);
}

/* What another user is shown: its own rows, and the test's as sums. */
static void look_as_somebody_else(const void *unused)
{
        (void)unused;
        listed_expect_sums(open_link("stranger", NULL), 12 * MIB, 3);
        ck_assert_int_eq(reset_peaks(NULL, PROTO_SCOPE_NODE, PROTO_ALL_POOLS), GPUMEM_E_DENIED);
        ck_assert_int_eq(reset_peaks(NULL, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS), 0);
}

TEST(other_users_see_sums_only, NEEDS_ROOT)
{
        void *one = must_alloc(GPUMEM_DEVICE, 3 * MIB);
        void *two = must_alloc(GPUMEM_DEVICE, 8 * MIB);

        daemon_admit_all(&gpumemd);
        as_user(SOMEBODY_ELSE, look_as_somebody_else, NULL);
        must_free(one);
        must_free(two);
}

#define N_LISTED 120 /* of each device */

/* Steps of the loop that one list takes, beside those of the looks. */
static uint64_t steps_of_blocks(struct link *link)
{
        uint64_t first = daemon_loop().steps, n_of_looks = daemon_loop().steps - first;
        struct frame request = {.blocks = {.pool = PROTO_ALL_POOLS}}, reply;
        uint64_t before = daemon_loop().steps;

        free(rows_over(link, &request, MESSAGE_BLOCKS, sizeof(struct block_row), &reply));
        ck_assert_uint_eq(reply.blocks_reply.n_rows, 2 * N_LISTED);
        return daemon_loop().steps - before - n_of_looks;
}

/* Its rows are made 64 at a time, and are written 64 at a time. */
TEST(a_long_list_is_cut_into_steps, NEEDS_TWO_DEVICES)
{
        struct link *link = open_link("holder", NULL);
        struct message_leased leased[2 * N_LISTED];

        for (uint32_t i = 0; i < 2 * N_LISTED; i++) {
                const struct message_lease wanted = {.pool = i % 2, .n_bytes = 2 * MIB};

                ck_assert_int_eq(lease_over(link, &wanted, &leased[i]), 0);
        }
        ck_assert_uint_ge(steps_of_blocks(link), 2 * (2 * N_LISTED / 64 + 1) - 1);
        for (uint32_t i = 0; i < 2 * N_LISTED; i++)
                return_over(link, leased[i].lease, PROTO_RETURN_UNMAPPED);
        link_free(link);
}

TESTS_MAIN("listing", .limit_s = 60, .start = start, .stop = solo_stop)
