/* SPDX-License-Identifier: Apache-2.0 */
/* CLIENTS, BLOCKS and TENANTS against a daemon of the test's own: who holds what, that sums agree
 * at any moment, and who may see it. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/live/listed.h"
#include "tests/live/solo.h"
#include "tests/suite.h"

#define SOMEBODY_ELSE 65534

static void start(void)
{
        static const char *const options[] = {"--pinned-bytes", "64MiB", NULL};

        daemon_start(&gpumemd, "devices=2,bytes=256MiB", options);
        daemon_note_fds(&gpumemd);
        solo_open(getuid());
}

/* A process that leases `n_bytes` and closes its connection, but keeps the memory mapped until it
 * is killed. */
static pid_t start_lingerer(uint64_t n_bytes)
{
        pid_t pid = fork();

        if (pid == 0) {
                struct fdset fds = FDSET_NULL, block = FDSET_NULL;
                struct frame request = FRAME_NULL, reply;
                struct message_welcome welcome;
                struct link *link;

                request.lease.n_bytes = n_bytes;
                if (link_new(NULL, "lingerer", &link, &welcome, &fds) ||
                    link_call(link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &block))
                        _exit(1);
                (void)link_free(link);
                (void)pause();
                _exit(0);
        }
        daemon_await(FIGURE_lingering, n_bytes);
        return pid;
}

static void end_process(pid_t pid)
{
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
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
        ck_assert_uint_eq(row->device_leased, 6 * MIB);
        ck_assert_uint_eq(row->device_charged, 6 * MIB);
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
        end_process(pid);
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

                ck_assert_uint_ne(row->block, 0);
                ck_assert_uint_eq(row->uid, geteuid());
                ck_assert_uint_eq(row->blocks, 1);
                ck_assert_uint_ge(row->age, row->state_age);
                seen |= 1u << row->state;
                ck_assert_uint_eq(row->holders, row->state == LISTED_LEASED);
                if (row->state == LISTED_LEASED) {
                        ck_assert_uint_eq(row->bytes, 4 * MIB);
                        ck_assert_uint_eq(row->pid, (uint32_t)getpid());
                        ck_assert_uint_ne(row->lease, 0);
                } else if (row->state == LISTED_CACHED) {
                        ck_assert_uint_eq(row->bytes, 2 * MIB);
                        ck_assert_uint_eq(row->kind, GPUMEM_PINNED);
                        ck_assert_uint_eq(row->pid, 0);
                        ck_assert_uint_eq(row->lease, 0);
                } else {
                        ck_assert_uint_eq(row->bytes, 4 * MIB);
                        ck_assert_uint_eq(row->pid, (uint32_t)pid);
                }
        }
        ck_assert_uint_eq(seen, 1u << LISTED_LEASED | 1u << LISTED_CACHED | 1u << LISTED_LINGERING);
        listed_free(&listed);
        end_process(pid);
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
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        pthread_t threads[2];
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "looker", &link, &welcome, &fds), 0);
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
        fdset_deinit(&fds);
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
        struct fdset fds = FDSET_NULL, reply_fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct message_welcome welcome;
        struct link *link;
        int r;

        request.reset_peaks.scope = scope;
        request.reset_peaks.pool = pool;
        r = link_new(socket, "reset", &link, &welcome, &fds);
        if (r)
                return r;
        r = link_call(link, &request, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET, &reply, &reply_fds);
        fdset_deinit(&fds);
        link_free(link);
        return r;
}

TEST(peaks_begin_anew)
{
        void *small = must_alloc(GPUMEM_DEVICE, 1000);
        void *large = must_alloc(GPUMEM_DEVICE, 20 * MIB);

        must_free(large);
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

/* Whether the row of other tenants says of each pool what `own`, the only other tenant's rows, say. */
static int compare_others(const struct listed *own)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct listed seen;
        struct link *link;

        if (setresuid(SOMEBODY_ELSE, SOMEBODY_ELSE, SOMEBODY_ELSE) ||
            link_new(NULL, "stranger", &link, &welcome, &fds))
                return 1;
        seen = listed_fetch(link, MESSAGE_TENANTS);
        if (seen.n_rows != 2 * own->n_rows)
                return 2;
        for (uint32_t i = 0; i < own->n_rows; i++) {
                struct tenant_row wanted = own->tenants[i];
                const struct tenant_row *row = &seen.tenants[own->n_rows + i];

                wanted.uid = LISTING_NOBODY;
                memset(wanted.container, 0, sizeof(wanted.container));
                wanted.reserved_peak = row->reserved_peak;
                wanted.clients = row->clients;
                if (memcmp(&wanted, row, sizeof(wanted)) != 0)
                        return 3;
        }
        return 0;
}

TEST(sums_over_others_are_whole, NEEDS_ROOT)
{
        void *held = must_alloc(GPUMEM_DEVICE, 4 * MIB);
        void *given = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        pid_t lingerer = start_lingerer(6 * MIB), pid;
        struct listed own;
        int status = -1;

        must_free(given);
        daemon_await(FIGURE_cached, 8 * MIB);
        own = listed_now(MESSAGE_TENANTS);
        ck_assert_uint_eq(own.tenants[0].leased, 4 * MIB);
        ck_assert_uint_eq(own.tenants[0].cached, 8 * MIB);
        ck_assert_uint_eq(own.tenants[0].lingering, 6 * MIB);
        daemon_admit_all(&gpumemd);
        pid = fork();
        if (pid == 0)
                _exit(compare_others(&own));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        listed_free(&own);
        end_process(lingerer);
        daemon_await(FIGURE_lingering, 0);
        must_free(held);
}

/* What another user is shown: its own rows, and the test's as sums. Exit status 0 if all is so. */
static int look_as_somebody_else(uint64_t n_device_bytes)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct listed clients, blocks, tenants;
        const struct client_row *others;
        struct link *link;

        if (setresuid(SOMEBODY_ELSE, SOMEBODY_ELSE, SOMEBODY_ELSE) ||
            link_new(NULL, "stranger", &link, &welcome, &fds))
                return 1;
        clients = listed_fetch(link, MESSAGE_CLIENTS);
        blocks = listed_fetch(link, MESSAGE_BLOCKS);
        tenants = listed_fetch(link, MESSAGE_TENANTS);
        if (clients.n_rows != 2 || clients.clients[0].uid != SOMEBODY_ELSE)
                return 2;
        others = &clients.clients[1];
        if (others->state != LISTED_OTHERS || others->pid || others->uid != LISTING_NOBODY ||
            others->clients != 1 || others->connected != LISTING_UNTOLD ||
            others->device_leased != n_device_bytes)
                return 3;
        if (blocks.n_rows != 1 || blocks.blocks[0].state != LISTED_SUM || blocks.blocks[0].block ||
            blocks.blocks[0].age != LISTING_UNTOLD || blocks.blocks[0].bytes != n_device_bytes ||
            blocks.blocks[0].blocks != 3)
                return 4;
        if (tenants.n_rows != 2 * tenants.n_pools ||
            tenants.tenants[tenants.n_pools].uid != LISTING_NOBODY ||
            tenants.tenants[tenants.n_pools].reserved != n_device_bytes ||
            tenants.tenants[tenants.n_pools].reserved_peak != LISTING_UNTOLD)
                return 5;
        if (reset_peaks(NULL, PROTO_SCOPE_NODE, PROTO_ALL_POOLS) != GPUMEM_E_DENIED ||
            reset_peaks(NULL, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS))
                return 6;
        return 0;
}

TEST(other_users_see_sums_only, NEEDS_ROOT)
{
        void *one = must_alloc(GPUMEM_DEVICE, 3 * MIB);
        void *two = must_alloc(GPUMEM_DEVICE, 8 * MIB);
        int status = -1;
        pid_t pid;

        daemon_admit_all(&gpumemd);
        pid = fork();
        if (pid == 0)
                _exit(look_as_somebody_else(12 * MIB));
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        must_free(one);
        must_free(two);
}

TESTS_MAIN("listing", .limit_s = 60, .start = start, .stop = solo_stop)
