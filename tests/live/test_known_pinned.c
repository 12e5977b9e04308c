/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory that one process does not use is at once another's of the same tenant: of memfds, whose
 * registration stays until gpumem_flush, or of the driver's own memory, which is unmapped as device
 * memory is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/suite.h"

/* Of 192 MiB: what is looked at when it is freed, and kept; and what there is no room for beside it. */
#define MUCH (80 * MIB)
#define MORE (144 * MIB)

#define LONG_MS 20000

/* On a busy machine a process may be slower than its blocks are kept. */
#define TRIES 50

static struct daemon gpumemd;
static struct holder one, other;

static void start_on(const char *backing)
{
        const char *const options[] = {"--pinned-bytes", "192MiB", "--pinned-backing", backing,
                                       NULL};

        daemon_start(&gpumemd, "devices=1,bytes=64MiB", options);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&one);
        holder_start(&other);
}

static void start_on_memfd(void)
{
        start_on("memfd");
}

static void start_on_vmm(void)
{
        start_on("vmm");
}

static void stop(void)
{
        holder_end(&one);
        holder_end(&other);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

static void have_idle(struct holder *holder)
{
        ck_assert_int_eq(holder_alloc_pinned(holder, MUCH, 0), 0);
        holder_free_all(holder);
        daemon_await(FIGURE_idle, MUCH);
}

START_TEST(it_is_anothers_while_its_holder_stands_still)
{
        uint64_t n_calls;

        have_idle(&one);
        n_calls = holder_driver_calls(&one);
        holder_stop(&one);
        ck_assert_int_eq(holder_alloc_pinned(&other, MUCH, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        holder_check(&other);
        holder_continue(&one);
        ck_assert_int_eq(holder_alloc_pinned(&one, MUCH / 2, 0), 0);
        holder_check(&one);
        holder_check(&other);
        ck_assert_uint_gt(holder_driver_calls(&one), n_calls);
}
END_TEST

START_TEST(it_comes_back_known)
{
        uint64_t n_calls = 0;
        unsigned i;

        for (i = 0; i < TRIES; i++) {
                have_idle(&one);
                n_calls = holder_driver_calls(&one);
                have_idle(&other);
                ck_assert_int_eq(holder_alloc_pinned(&one, MUCH, 0), 0);
                holder_check(&one);
                if (holder_driver_calls(&one) == n_calls)
                        break;
                holder_free_all(&one);
        }
        ck_assert_uint_lt(i, TRIES);
        ck_assert_uint_ge(daemon_figure(FIGURE_known_grants), 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
}
END_TEST

/* The one that has it by now dies, and it is let go. */
static void let_go(void)
{
        have_idle(&one);
        ck_assert_int_eq(holder_alloc_pinned(&other, MUCH, 0), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_revocations), 1);
        holder_kill(&other);
        daemon_await(FIGURE_releases, 1);
}

START_TEST(what_is_registered_lingers_until_it_is_flushed)
{
        uint64_t n_calls;

        let_go();
        daemon_await(FIGURE_lingering, MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_notices), 1);
        n_calls = holder_driver_calls(&one);
        /* What else is allocated and freed leaves it alone. */
        ck_assert_int_eq(holder_alloc_pinned(&one, 2 * MIB, 0), 0);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 1);
        holder_free_all(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        holder_flush(&one);
        daemon_await(FIGURE_lingering, 0);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(holder_driver_calls(&one), n_calls + 3);
        ck_assert_int_eq(holder_alloc_pinned(&one, MORE, 0), 0);
        holder_start(&other);
}
END_TEST

START_TEST(what_the_driver_made_is_unmapped)
{
        let_go();
        daemon_await(FIGURE_lingering, 0);
        daemon_await(FIGURE_charged, 0);
        holder_start(&other);
        ck_assert_int_eq(holder_alloc_pinned(&one, MORE, 0), 0);
        holder_check(&one);
}
END_TEST

/* Others of the tenant have no use for it, and it would not come back: it stays its holder's. */
START_TEST(what_is_registered_is_not_let_go_for_others)
{
        have_idle(&one);
        ck_assert_int_eq(holder_alloc_pinned(&other, MORE, 0), GPUMEM_E_REFUSED);
        ck_assert_int_eq(holder_alloc_pinned(&other, MORE, 100), GPUMEM_E_TIMED_OUT);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_idle), MUCH);
        holder_flush(&one);
        ck_assert_int_eq(holder_alloc_pinned(&other, MORE, 0), 0);
        holder_check(&other);
}
END_TEST

START_TEST(who_would_be_refused_unregisters_its_own)
{
        have_idle(&one);
        ck_assert_int_eq(holder_alloc_pinned(&one, MORE, 0), 0);
        holder_check(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
}
END_TEST

static void limit_clients(uint64_t n_bytes)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "limiter", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        request.set_limits.scope = PROTO_LIMIT_OF_CLIENT;
        request.set_limits.holder = PROTO_LIMIT_OF_EACH;
        request.set_limits.kind = PROTO_LIMIT_PINNED_BYTES;
        request.set_limits.max = n_bytes;
        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply, &fds), 0);
        link_free(link);
}

/* What is idle would be charged as before if it was revoked: it is the library that gives it up. */
START_TEST(beside_a_limit_it_unregisters_its_own)
{
        limit_clients(MORE);
        have_idle(&one);
        ck_assert_int_eq(holder_alloc_pinned(&one, MORE, 0), 0);
        holder_check(&one);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), MORE);
}
END_TEST

/* What is said to have gone back. */
static uint64_t free_all(void)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct message_welcome welcome;
        struct link *link;

        ck_assert_int_eq(link_new(NULL, "free-all", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        request.free_all_blocks.scope = PROTO_SCOPE_TENANT;
        request.free_all_blocks.pool = PROTO_ALL_POOLS;
        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds), 0);
        link_free(link);
        return reply.freed.n_bytes;
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
        ck_assert_msg(strstr(said, "0 B in 0 blocks went back to the driver\n"), "%s", said);
        ck_assert_msg(strstr(said, whose), "\"%s\" is not in: %s", whose, said);
        ck_assert_msg(strstr(said, why), "\"%s\" is not in: %s", why, said);
}

START_TEST(what_is_registered_is_not_said_to_be_freed)
{
        have_idle(&one);
        ck_assert_uint_eq(free_all(), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        check_told(&one, "of pinned memory registered until it calls gpumem_flush or ends\n");
        holder_flush(&one);
        daemon_await(FIGURE_lingering, 0);
        ck_assert_uint_eq(free_all(), 0);
}
END_TEST

START_TEST(what_the_driver_made_is_freed)
{
        have_idle(&one);
        ck_assert_uint_eq(free_all(), MUCH);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), 0);
}
END_TEST

START_TEST(what_a_stopped_process_maps_is_not_said_to_be_freed)
{
        have_idle(&one);
        holder_stop(&one);
        ck_assert_uint_eq(free_all(), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_lingering), MUCH);
        holder_continue(&one);
        daemon_await(FIGURE_lingering, 0);
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("known_pinned");
        TCase *memfd = tcase_create("memfd"), *vmm = tcase_create("vmm");

        tcase_set_timeout(memfd, 120);
        tcase_add_checked_fixture(memfd, start_on_memfd, stop);
        tcase_add_test(memfd, it_is_anothers_while_its_holder_stands_still);
        tcase_add_test(memfd, it_comes_back_known);
        tcase_add_test(memfd, what_is_registered_lingers_until_it_is_flushed);
        tcase_add_test(memfd, what_is_registered_is_not_let_go_for_others);
        tcase_add_test(memfd, who_would_be_refused_unregisters_its_own);
        tcase_add_test(memfd, beside_a_limit_it_unregisters_its_own);
        tcase_add_test(memfd, what_is_registered_is_not_said_to_be_freed);
        suite_add_tcase(suite, memfd);
        tcase_set_timeout(vmm, 120);
        tcase_add_checked_fixture(vmm, start_on_vmm, stop);
        tcase_add_test(vmm, it_is_anothers_while_its_holder_stands_still);
        tcase_add_test(vmm, it_comes_back_known);
        tcase_add_test(vmm, what_the_driver_made_is_unmapped);
        tcase_add_test(vmm, what_the_driver_made_is_freed);
        tcase_add_test(vmm, what_a_stopped_process_maps_is_not_said_to_be_freed);
        suite_add_tcase(suite, vmm);
        return run_suite(suite);
}
