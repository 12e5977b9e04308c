/* SPDX-License-Identifier: Apache-2.0 */
/* Unused memory of one process is available at once to others of its tenant: pinned memory of memfds, which
 * stays registered until gpumem_flush; device memory of CUDA IPC handles, which stays open until then;
 * pinned memory of the driver, which is unmapped like device memory. */
#include "client/blocks/retained.h"
#include "tests/demo/gpu.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/legacy_world.h"

/* Of 256 MiB: what is looked at when it is freed, and kept; and what there is no room for beside it. */
#define MUCH (80 * MIB)
#define MORE (200 * MIB)

#define LONG_MS 20000

/* On a busy machine a process may be slower than its blocks are kept. */
#define TRIES 50

enum kind { MEMFD, LEGACY, VMM, N_KINDS };

static struct holder one, other;
static int (*alloc)(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);

static void start(enum kind kind)
{
        alloc = kind == LEGACY ? holder_alloc : holder_alloc_pinned;
        if (kind == LEGACY)
                legacy_start(&gpumemd, "devices=1,bytes=512MiB", geteuid());
        else
                daemon_start(&gpumemd, "devices=1,bytes=64MiB",
                             OPTIONS("--pinned-bytes", "256MiB", "--pinned-backing",
                                     kind == VMM ? "vmm" : "memfd"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        gpumemd_stop_empty();
}

static void must_alloc(struct holder *holder, uint64_t n_bytes)
{
        ck_assert_int_eq(alloc(holder, n_bytes, 0), 0);
}

static void have_idle(struct holder *holder, uint64_t n_bytes)
{
        must_alloc(holder, n_bytes);
        holder_check(holder);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, n_bytes);
}

TEST(it_is_anothers_while_its_holder_stands_still, .to = N_KINDS)
{
        uint64_t n_calls;

        start((enum kind)_i);
        have_idle(&one, MUCH);
        n_calls = holder_driver_calls(&one);
        holder_stop(&one);
        must_alloc(&other, MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        holder_check(&other);
        holder_continue(&one);
        must_alloc(&one, MUCH / 2);
        holder_check(&one);
        holder_check(&other);
        ck_assert_uint_gt(holder_driver_calls(&one), n_calls);
}

TEST(it_comes_back_known, .to = N_KINDS)
{
        uint64_t n_calls = 0;
        unsigned i;

        start((enum kind)_i);
        for (i = 0; i < TRIES; i++) {
                have_idle(&one, MUCH);
                n_calls = holder_driver_calls(&one);
                have_idle(&other, MUCH);
                must_alloc(&one, MUCH);
                holder_check(&one);
                if (holder_driver_calls(&one) == n_calls)
                        break;
                holder_free_all(&one);
        }
        ck_assert_uint_lt(i, TRIES);
        ck_assert_uint_ge(daemon_figure(FIGURE_known_grants), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
}

/* The one that has it by now dies, and it is let go. */
static void let_go(void)
{
        have_idle(&one, MUCH);
        must_alloc(&other, MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_revocations), 1);
        holder_kill(&other);
        daemon_await(FIGURE_releases, 1);
}

TEST(what_is_registered_or_open_lingers_until_it_is_flushed, .to = VMM)
{
        uint64_t n_calls;

        start((enum kind)_i);
        let_go();
        daemon_await(FIGURE_lingering, MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_notices), 1);
        n_calls = holder_driver_calls(&one);
        /* What else is allocated and freed leaves it alone. */
        must_alloc(&one, 2 * MIB);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 1);
        holder_free_all(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        holder_flush(&one);
        daemon_await(FIGURE_lingering, 0);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 3);
        must_alloc(&one, MORE);
        holder_check(&one);
        holder_start(&other);
}

TEST(what_the_driver_made_is_unmapped)
{
        start(VMM);
        let_go();
        daemon_await(FIGURE_lingering, 0);
        daemon_await(FIGURE_charged, 0);
        holder_start(&other);
        must_alloc(&one, MORE);
        holder_check(&one);
}

/* Others of the tenant have no use for it, and it would not come back: it stays its holder's. */
TEST(what_is_registered_is_not_let_go_for_others)
{
        start(MEMFD);
        have_idle(&one, MUCH);
        ck_assert_int_eq(alloc(&other, MORE, 0), GPUMEM_E_REFUSED);
        ck_assert_int_eq(alloc(&other, MORE, 100), GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_idle), MUCH);
        holder_flush(&one);
        must_alloc(&other, MORE);
        holder_check(&other);
}

static void give_up_own(void)
{
        have_idle(&one, MUCH);
        must_alloc(&one, MORE);
        holder_check(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
}

TEST(who_would_be_refused_unregisters_or_closes_its_own, .to = VMM)
{
        start((enum kind)_i);
        give_up_own();
}

/* What is idle would be charged as before if it was revoked: it is the library that gives it up. */
TEST(beside_a_limit_it_unregisters_its_own)
{
        const struct message_set_limits change = {.scope = PROTO_LIMIT_OF_CLIENT,
                                                  .holder = PROTO_LIMIT_OF_EACH,
                                                  .kind = PROTO_LIMIT_PINNED_BYTES,
                                                  .max = MORE};
        struct link *link;

        start(MEMFD);
        link = open_link("limiter", NULL);
        ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        link_free(link);
        give_up_own();
}

/* What is said to have gone back. */
static uint64_t free_all(void)
{
        struct link *link = open_link("free-all", NULL);
        uint64_t n_bytes;

        ck_assert_int_eq(free_all_over(link, PROTO_SCOPE_TENANT, PROTO_ALL_POOLS, &n_bytes), 0);
        link_free(link);
        return n_bytes;
}

/* gpumemctl free-all frees nothing, and says of that process what it keeps, and why. */
static void check_told(const struct holder *holder, const char *why)
{
        char command[512], said[2048], whose[64];
        FILE *output;
        size_t n;

        (void)snprintf(command, sizeof(command), "'%s' free-all", getenv("GPUMEM_TEST_CTL"));
        output = popen(command, "re");
        ck_assert_ptr_nonnull(output);
        n = fread(said, 1, sizeof(said) - 1, output);
        said[n] = '\0';
        ck_assert_int_eq(pclose(output), 0);
        (void)snprintf(whose, sizeof(whose), "(process %d, uid %u) ", (int)holder->pid, geteuid());
        must_contain(said, "0 B in 0 blocks went back to the driver\n");
        must_contain(said, whose);
        must_contain(said, why);
}

TEST(what_is_registered_is_not_said_to_be_freed)
{
        start(MEMFD);
        have_idle(&one, MUCH);
        ck_assert_uint_eq(free_all(), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        check_told(&one, "of pinned memory registered until it calls gpumem_flush or ends\n");
        holder_flush(&one);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_uint_eq(free_all(), 0);
}

TEST(what_the_driver_made_is_freed)
{
        start(VMM);
        have_idle(&one, MUCH);
        ck_assert_uint_eq(free_all(), MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
}

TEST(what_a_stopped_process_maps_is_not_said_to_be_freed)
{
        start(VMM);
        have_idle(&one, MUCH);
        holder_stop(&one);
        ck_assert_uint_eq(free_all(), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        holder_continue(&one);
        daemon_await(FIGURE_lingering, 0);
}

TEST(allocations_of_all_sizes_hold_their_bytes)
{
        static const uint64_t n_bytes[] = {1, 512, 100000, 2 * MIB, 5 * MIB + 1, 40 * MIB};

        start(LEGACY);
        for (unsigned i = 0; i < ARRAY_SIZE(n_bytes); i++) {
                must_alloc(&one, n_bytes[i]);
                must_alloc(&other, n_bytes[i]);
        }
        holder_check(&one);
        holder_check(&other);
        holder_free_all(&one);
        holder_check(&other);
}

TEST(a_killed_holder_leaves_room)
{
        start(LEGACY);
        must_alloc(&one, MORE);
        ck_assert_int_eq(alloc(&other, MORE, 0), GPUMEM_E_REFUSED);
        holder_kill(&one);
        ck_assert_int_eq(alloc(&other, MORE, LONG_MS), 0);
        holder_check(&other);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
        holder_start(&one);
}

TEST(a_killed_daemon_takes_only_what_nobody_has_open)
{
        start(LEGACY);
        must_alloc(&one, MUCH);
        must_alloc(&other, MUCH);
        holder_free_all(&other);
        holder_flush(&other);
        daemon_await(FIGURE_cached, MUCH);
        daemon_kill(&gpumemd);
        holder_check(&one);
        legacy_restart(&gpumemd);
        ck_assert_int_eq(alloc(&one, 2 * MIB, LONG_MS), 0);
        daemon_await(FIGURE_declared, MUCH);
        holder_check(&one);
        ck_assert_int_eq(alloc(&other, MUCH, LONG_MS), 0);
        holder_check(&other);
        holder_free_all(&one);
        holder_flush(&one);
        daemon_await(FIGURE_declared, 0);
}

static bool is_blind;

/* The linker leads the library's calls here: a process that is blind does not see what it keeps. */
bool __real_retained_plan(struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                          struct new_blocks *ret_new_blocks);
bool __wrap_retained_plan(struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                          struct new_blocks *ret_new_blocks);
bool __wrap_retained_plan(struct pool *pool, struct set_heap *heap, uint64_t n_bytes,
                          struct new_blocks *ret_new_blocks)
{
        return !is_blind && __real_retained_plan(pool, heap, n_bytes, ret_new_blocks);
}

static uint64_t used_bytes(struct gpu *gpu)
{
        uint64_t n_free, n_total;

        ck_assert_int_eq(gpu_memory(gpu, &n_free, &n_total), 0);
        return n_total - n_free;
}

/* There is no room for two: else each would get one of its own when they take turns so fast. */
#define MOST    (144 * MIB)
#define N_TIMES 5

/* A GPU's other users take and give memory at any time. */
#define TOLERANCE (16 * MIB)

/* A block that a process is granted again while it has it open for an ended lease. */
TEST(it_is_opened_again_and_closed_for_good)
{
        struct gpu *gpu;
        uint64_t n_used;

        is_blind = true;
        start(LEGACY);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        have_idle(&one, MOST);
        n_used = used_bytes(gpu);
        for (unsigned i = 0; i < N_TIMES; i++) {
                have_idle(&other, MOST);
                have_idle(&one, MOST);
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_revocations), 2 * N_TIMES);
        ck_assert_uint_eq(daemon_figure(FIGURE_known_grants), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MOST);
        holder_flush(&one);
        holder_flush(&other);
        daemon_expect_empty();
        /* Closed as often as it was opened, so the driver has it back. */
        ck_assert_uint_le(used_bytes(gpu) + MOST, n_used + TOLERANCE);
        gpu_free(gpu);
}

TESTS_MAIN("passed_on", .limit_s = 120, .stop = stop)
