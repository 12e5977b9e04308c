/* SPDX-License-Identifier: Apache-2.0 */
/* RECLAIM: what a tenant has cached or idle goes back to the driver, and who may want that. */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "tests/live/containers.h"
#include "tests/live/frames_world.h"
#include "tests/live/links.h"
#include "tests/live/party.h"
#include "tests/live/told.h"
#include "tests/suite.h"

#define STRANGER 4711

static void start(void)
{
        frames_start();
        daemon_admit_all(&gpumemd);
}

static uint32_t own_pid(void)
{
        return (uint32_t)getpid();
}

static uint32_t own_uid(void)
{
        return (uint32_t)getuid();
}

static struct party join_as_stranger(void)
{
        struct party party;

        ck_assert_int_eq(seteuid(STRANGER), 0);
        party = party_join();
        ck_assert_int_eq(seteuid(0), 0);
        return party;
}

static struct frame reclaim_frame(uint32_t uid, const char *container)
{
        struct frame frame = FRAME_NULL;

        frame.reclaim.uid = uid;
        proto_put_text(frame.reclaim.container, sizeof(frame.reclaim.container), container);
        return frame;
}

static struct message_reclaimed reclaim(struct link *link, uint32_t uid)
{
        struct frame frame = reclaim_frame(uid, ""), reply;
        struct fdset fds = FDSET_NULL;

        ck_assert_int_eq(link_call(link, &frame, MESSAGE_RECLAIM, MESSAGE_RECLAIMED, &reply, &fds),
                         0);
        return reply.reclaimed;
}

TEST(a_tenant_is_reclaimed_and_what_it_has_left_is_said, NEEDS_ROOT)
{
        struct party stranger = join_as_stranger(), root = party_join();
        struct message_leased cached = party_lease(&stranger, 0, 4 * MIB);
        struct message_leased idle = party_lease(&stranger, 0, 6 * MIB);
        struct message_leased busy = party_lease(&stranger, 0, 8 * MIB);
        struct message_leased of_root = party_lease(&root, 0, 10 * MIB);
        struct link *link = open_link("test", NULL);
        struct message_reclaimed reclaimed;
        struct event_row row;
        struct frame notice;
        struct fdset fds = FDSET_NULL;

        party_give_back(&stranger, cached.lease);
        party_give_back(&root, of_root.lease);
        daemon_await(FIGURE_cached, 14 * MIB);
        party_mark_idle(&stranger, &idle);
        reclaimed = reclaim(link, STRANGER);
        ck_assert_uint_eq(reclaimed.n_bytes, 4 * MIB);
        ck_assert_uint_eq(reclaimed.n_blocks, 1);
        /* The client was told to unmap what was idle, and has not yet. */
        ck_assert_uint_eq(reclaimed.n_left_bytes, 14 * MIB);
        ck_assert_uint_eq(reclaimed.n_charged_bytes, 14 * MIB);
        ck_assert_uint_eq(reclaimed.n_tenants, 1);
        ck_assert_uint_eq(reclaimed.n_meant, 1);
        ck_assert_uint_eq(reclaimed.n_clients, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 10 * MIB);
        ck_assert(party_was_revoked(&stranger, &idle));
        party_expect(&stranger, MESSAGE_NOTICE, &notice, &fds);
        party_unmapped(&stranger, idle.lease);
        party_give_back(&stranger, busy.lease);
        daemon_await(FIGURE_charged, 0);
        reclaimed = reclaim(link, STRANGER);
        ck_assert_uint_eq(reclaimed.n_bytes, 8 * MIB);
        ck_assert_uint_eq(reclaimed.n_left_bytes, 0);
        ck_assert_uint_eq(reclaimed.n_tenants, 0);
        row = told_await(LISTED_EVENT_REVOKED, own_pid(), STRANGER);
        ck_assert_uint_eq(row.bytes, 6 * MIB);
        row = told_await(LISTED_EVENT_FREED_ALL, own_pid(), own_uid());
        ck_assert_str_eq(row.text, "cached and idle blocks of uid 4711 are freed");
        link_free(link);
        party_leave(&root);
        party_leave(&stranger);
}

static struct frame ask(struct party *party, struct frame *frame, enum message_kind kind,
                        enum message_kind answer)
{
        struct fdset fds = FDSET_NULL;
        struct frame reply;

        (void)party_say(party, frame, kind);
        party_expect(party, answer, &reply, &fds);
        fdset_deinit(&fds);
        return reply;
}

static struct message_leased lease_shareable(struct party *party, uint64_t n_bytes)
{
        struct frame frame = FRAME_NULL;

        frame.lease.n_bytes = n_bytes;
        frame.lease.properties = PROTO_PROPERTY_SHAREABLE;
        return ask(party, &frame, MESSAGE_LEASE, MESSAGE_LEASED).leased;
}

/* Returns the lease of `to`. */
static uint64_t share_with(struct party *from, uint64_t lease, struct party *to, uint32_t uid)
{
        struct frame frame = FRAME_NULL, shared;

        frame.share = (struct message_share){
                .lease = lease, .n_bytes = 4096, .uid = uid, .flags = PROTO_SHARE_GRANT};
        shared = ask(from, &frame, MESSAGE_SHARE, MESSAGE_SHARED);
        frame = (struct frame)FRAME_NULL;
        frame.attach.token_low = shared.shared.token_low;
        frame.attach.token_high = shared.shared.token_high;
        return ask(to, &frame, MESSAGE_ATTACH, MESSAGE_ATTACHED).attached.lease;
}

/* They hold it for as long as they like: who waits until nothing is left does not wait for them. */
TEST(what_others_are_charged_for_is_not_left, NEEDS_ROOT)
{
        struct party stranger = join_as_stranger(), root = party_join();
        struct message_leased made = lease_shareable(&stranger, 4 * MIB);
        struct link *link = open_link("test", NULL);
        struct message_reclaimed reclaimed;
        uint64_t attached = share_with(&stranger, made.lease, &root, own_uid()), busy;

        reclaimed = reclaim(link, STRANGER);
        ck_assert_uint_eq(reclaimed.n_left_bytes, 4 * MIB);
        ck_assert_uint_eq(reclaimed.n_shared_bytes, 0);
        ck_assert_uint_eq(reclaimed.n_charged_bytes, 4 * MIB);
        party_give_back(&stranger, made.lease);
        busy = party_lease(&stranger, 0, 6 * MIB).lease;
        reclaimed = reclaim(link, STRANGER);
        ck_assert_uint_eq(reclaimed.n_left_bytes, 6 * MIB);
        ck_assert_uint_eq(reclaimed.n_shared_bytes, 4 * MIB);
        ck_assert_uint_eq(reclaimed.n_charged_bytes, 6 * MIB);
        ck_assert_uint_eq(reclaimed.n_tenants, 1);
        /* It is theirs that are charged, as before. */
        reclaimed = reclaim(link, own_uid());
        ck_assert_uint_eq(reclaimed.n_left_bytes, 0);
        ck_assert_uint_eq(reclaimed.n_shared_bytes, 0);
        ck_assert_uint_eq(reclaimed.n_charged_bytes, 4 * MIB);
        party_give_back(&stranger, busy);
        party_give_back(&root, attached);
        link_free(link);
        party_leave(&root);
        party_leave(&stranger);
}

static unsigned count_told(struct link *link)
{
        struct told told = told_fetch(link, 0, TOLD_BIT(FREED_ALL));
        unsigned n = told.n_rows;

        told_free(&told);
        return n;
}

/* Who waits until nothing is left asks again and again. */
TEST(a_reclaim_that_goes_on_is_told_once_and_when_it_takes_something)
{
        struct link *link = open_admin_link("test"), *other = open_admin_link("test");
        struct party party = party_join();
        struct message_leased held = party_lease(&party, 0, 4 * MIB);
        unsigned n = count_told(link);

        for (int i = 0; i < 5; i++) {
                ck_assert_uint_eq(reclaim(link, own_uid()).n_left_bytes, 4 * MIB);
                ck_assert_uint_eq(count_told(link), n + 1);
        }
        party_give_back(&party, held.lease);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(reclaim(link, own_uid()).n_bytes, 4 * MIB);
        ck_assert_uint_eq(count_told(link), n + 2);
        (void)reclaim(link, own_uid());
        ck_assert_uint_eq(count_told(link), n + 2);
        (void)reclaim(link, STRANGER);
        ck_assert_uint_eq(count_told(link), n + 3);
        (void)reclaim(other, STRANGER);
        ck_assert_uint_eq(count_told(link), n + 4);
        link_free(other);
        link_free(link);
        party_leave(&party);
}

static enum cgroup_tree tree;

static bool has_containers(void)
{
        return is_root() && containers_find_tree(&tree);
}

static struct party join_in_container(unsigned n)
{
        struct party party;

        container_enter(tree, n);
        party = party_join();
        container_leave(tree);
        return party;
}

TEST(a_container_is_reclaimed_by_its_name, .can_run = has_containers,
     .needs = "root, and cgroups that may be written to")
{
        char name[CONTAINER_SHORT_ID_BYTES];
        struct party inside, other, outside;
        struct frame frame;

        ck_assert(has_containers());
        inside = join_in_container(0);
        other = join_in_container(1);
        outside = party_join();
        party_give_back(&inside, party_lease(&inside, 0, 4 * MIB).lease);
        party_give_back(&other, party_lease(&other, 0, 6 * MIB).lease);
        party_give_back(&outside, party_lease(&outside, 0, 8 * MIB).lease);
        daemon_await(FIGURE_cached, 18 * MIB);
        frame = reclaim_frame(UINT32_MAX, container_short_id(0, name));
        party_say(&inside, &frame, MESSAGE_RECLAIM);
        expect_error(inside.fd, inside.serial, GPUMEM_E_DENIED);
        frame = reclaim_frame(UINT32_MAX, container_short_id(0, name));
        party_say(&outside, &frame, MESSAGE_RECLAIM);
        frame = expect(outside.fd, MESSAGE_RECLAIMED);
        ck_assert_uint_eq(frame.reclaimed.n_bytes, 4 * MIB);
        ck_assert_uint_eq(frame.reclaimed.n_left_bytes, 0);
        ck_assert_str_eq(frame.reclaimed.container, name);
        /* Of a user that has nothing in that container. */
        frame = reclaim_frame(STRANGER, container_short_id(1, name));
        party_say(&outside, &frame, MESSAGE_RECLAIM);
        ck_assert_uint_eq(expect(outside.fd, MESSAGE_RECLAIMED).reclaimed.n_bytes, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 14 * MIB);
        party_leave(&outside);
        party_leave(&other);
        party_leave(&inside);
        containers_remove(tree);
}

TEST(who_may_not_reclaim_is_denied, NEEDS_ROOT)
{
        struct party stranger = join_as_stranger(), root = party_join();
        struct frame frame = reclaim_frame(STRANGER, "");

        party_say(&stranger, &frame, MESSAGE_RECLAIM);
        expect_error(stranger.fd, stranger.serial, GPUMEM_E_DENIED);
        frame = reclaim_frame(UINT32_MAX, "");
        party_say(&root, &frame, MESSAGE_RECLAIM);
        expect_error(root.fd, root.serial, GPUMEM_E_BAD_REQUEST);
        frame = reclaim_frame(UINT32_MAX, "job_5");
        party_say(&root, &frame, MESSAGE_RECLAIM);
        ck_assert_uint_eq(expect(root.fd, MESSAGE_RECLAIMED).reclaimed.n_meant, 0);
        party_leave(&root);
        party_leave(&stranger);
}

/* The release hangs in the driver, so that the first is not answered. */
TEST(one_reclaim_at_a_time_is_taken, NEEDS_EMULATOR)
{
        struct party root = party_join();
        struct message_leased held = party_lease(&root, 0, 4 * MIB);
        struct frame frame = reclaim_frame(own_uid(), "");
        uint32_t first;

        party_give_back(&root, held.lease);
        daemon_fault(&gpumemd, gpumemd.pid, "hang=cuMemRelease:1");
        first = party_say(&root, &frame, MESSAGE_RECLAIM);
        frame = reclaim_frame(own_uid(), "");
        party_say(&root, &frame, MESSAGE_RECLAIM);
        expect_error(root.fd, root.serial, GPUMEM_E_TOO_MANY);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        frame = expect(root.fd, MESSAGE_RECLAIMED);
        ck_assert_uint_eq(frame.serial, first);
        ck_assert_uint_eq(frame.reclaimed.n_bytes, 4 * MIB);
        party_leave(&root);
}

TESTS_MAIN("reclaim", .limit_s = 60, .start = start, .stop = frames_stop)
