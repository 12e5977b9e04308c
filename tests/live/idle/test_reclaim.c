/* SPDX-License-Identifier: Apache-2.0 */
/* RECLAIM: a tenant's cached and idle memory goes back to the driver, and which clients may ask for it. */
#include "tests/live/support/containers.h"
#include "tests/live/support/told.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"
#include "tests/live/worlds/party.h"

#define STRANGER 4711

static void start(void)
{
        frames_start();
        daemon_admit_all(&gpumemd);
}

#define OWN_PID ((uint32_t)getpid())
#define OWN_UID ((uint32_t)getuid())

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

        ck_assert_int_eq(ask_over(link, &frame, MESSAGE_RECLAIM, &reply), 0);
        return reply.reclaimed;
}

/* So much goes back; the rest is the tenant's, shared with others and charged. */
static void expect_reclaimed(struct link *link, uint32_t uid, uint64_t n_bytes, uint64_t n_left,
                             uint64_t n_shared, uint64_t n_charged)
{
        struct message_reclaimed reclaimed = reclaim(link, uid);

        ck_assert_uint_eq(reclaimed.n_bytes, n_bytes);
        ck_assert_uint_eq(reclaimed.n_left_bytes, n_left);
        ck_assert_uint_eq(reclaimed.n_shared_bytes, n_shared);
        ck_assert_uint_eq(reclaimed.n_charged_bytes, n_charged);
}

static void expect_refused(struct party *party, uint32_t uid, const char *container, int code)
{
        struct frame frame = reclaim_frame(uid, container);

        party_say(party, &frame, MESSAGE_RECLAIM);
        expect_error(party->fd, party->serial, (enum gpumem_error)code);
}

static struct message_reclaimed reclaim_by(struct party *party, uint32_t uid, const char *container)
{
        struct frame frame = reclaim_frame(uid, container);

        party_say(party, &frame, MESSAGE_RECLAIM);
        return expect(party->fd, MESSAGE_RECLAIMED).reclaimed;
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
        struct frame notice;
        struct fdset fds = FDSET_NULL;

        party_give_back(&stranger, cached.lease);
        party_give_back(&root, of_root.lease);
        daemon_await(FIGURE_cached, 14 * MIB);
        party_mark_idle(&stranger, &idle);
        reclaimed = reclaim(link, STRANGER);
        ck_assert_uint_eq(reclaimed.n_bytes, 4 * MIB);
        ck_assert_uint_eq(reclaimed.n_blocks, 1);
        /* The client was told to unmap its idle memory, and has not yet. */
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
        ck_assert_uint_eq(told_await(LISTED_EVENT_REVOKED, OWN_PID, STRANGER).bytes, 6 * MIB);
        ck_assert_str_eq(told_await(LISTED_EVENT_FREED_ALL, OWN_PID, OWN_UID).text,
                         "cached and idle blocks of uid 4711 are freed");
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
        struct frame frame = {
                .lease = {.n_bytes = n_bytes, .properties = PROTO_PROPERTY_SHAREABLE}};

        return ask(party, &frame, MESSAGE_LEASE, MESSAGE_LEASED).leased;
}

/* Returns the lease of `to`. */
static uint64_t share_with(struct party *from, uint64_t lease, struct party *to, uint32_t uid)
{
        struct frame frame = {
                .share = {.lease = lease, .n_bytes = 4096, .uid = uid, .flags = PROTO_SHARE_GRANT}};
        struct message_shared shared = ask(from, &frame, MESSAGE_SHARE, MESSAGE_SHARED).shared;

        frame = (struct frame){
                .attach = {.token_low = shared.token_low, .token_high = shared.token_high}};
        return ask(to, &frame, MESSAGE_ATTACH, MESSAGE_ATTACHED).attached.lease;
}

/* They may hold it as long as they like: `reclaim --wait` does not wait for them. */
TEST(what_others_are_charged_for_is_not_left, NEEDS_ROOT)
{
        struct party stranger = join_as_stranger(), root = party_join();
        struct message_leased made = lease_shareable(&stranger, 4 * MIB);
        struct link *link = open_link("test", NULL);
        uint64_t attached = share_with(&stranger, made.lease, &root, OWN_UID), busy;

        expect_reclaimed(link, STRANGER, 0, 4 * MIB, 0, 4 * MIB);
        party_give_back(&stranger, made.lease);
        busy = party_lease(&stranger, 0, 6 * MIB).lease;
        expect_reclaimed(link, STRANGER, 0, 6 * MIB, 4 * MIB, 6 * MIB);
        ck_assert_uint_eq(reclaim(link, STRANGER).n_tenants, 1);
        /* They are charged, as before. */
        expect_reclaimed(link, OWN_UID, 0, 0, 0, 4 * MIB);
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

/* A client that waits until nothing is left repeats its request. */
TEST(a_reclaim_that_goes_on_is_told_once_and_when_it_takes_something)
{
        struct link *link = open_admin_link("test"), *other = open_admin_link("test");
        struct party party = party_join();
        struct message_leased held = party_lease(&party, 0, 4 * MIB);
        unsigned n = count_told(link);

        for (int i = 0; i < 5; i++) {
                ck_assert_uint_eq(reclaim(link, OWN_UID).n_left_bytes, 4 * MIB);
                ck_assert_uint_eq(count_told(link), n + 1);
        }
        party_give_back(&party, held.lease);
        daemon_await(FIGURE_cached, 4 * MIB);
        ck_assert_uint_eq(reclaim(link, OWN_UID).n_bytes, 4 * MIB);
        ck_assert_uint_eq(count_told(link), n + 2);
        (void)reclaim(link, OWN_UID);
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
        struct message_reclaimed reclaimed;

        ck_assert(has_containers());
        inside = join_in_container(0);
        other = join_in_container(1);
        outside = party_join();
        /* Containers are served in turns: what one gives back may be taken after what another one asks. */
        party_give_back(&inside, party_lease(&inside, 0, 4 * MIB).lease);
        daemon_await(FIGURE_cached, 4 * MIB);
        party_give_back(&other, party_lease(&other, 0, 6 * MIB).lease);
        daemon_await(FIGURE_cached, 10 * MIB);
        party_give_back(&outside, party_lease(&outside, 0, 8 * MIB).lease);
        daemon_await(FIGURE_cached, 18 * MIB);
        expect_refused(&inside, UINT32_MAX, container_short_id(0, name), GPUMEM_E_DENIED);
        reclaimed = reclaim_by(&outside, UINT32_MAX, name);
        ck_assert_uint_eq(reclaimed.n_bytes, 4 * MIB);
        ck_assert_uint_eq(reclaimed.n_left_bytes, 0);
        ck_assert_str_eq(reclaimed.container, name);
        /* Of a user that has nothing in that container. */
        reclaimed = reclaim_by(&outside, STRANGER, container_short_id(1, name));
        ck_assert_uint_eq(reclaimed.n_bytes, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 14 * MIB);
        party_leave(&outside);
        party_leave(&other);
        party_leave(&inside);
        containers_remove(tree);
}

TEST(who_may_not_reclaim_is_denied, NEEDS_ROOT)
{
        struct party stranger = join_as_stranger(), root = party_join();

        expect_refused(&stranger, STRANGER, "", GPUMEM_E_DENIED);
        expect_refused(&root, UINT32_MAX, "", GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(reclaim_by(&root, UINT32_MAX, "job_5").n_meant, 0);
        party_leave(&root);
        party_leave(&stranger);
}

/* The release hangs in the driver, so that the first request is not answered. */
TEST(one_reclaim_at_a_time_is_taken, NEEDS_EMULATOR)
{
        struct party root = party_join();
        struct message_leased held = party_lease(&root, 0, 4 * MIB);
        struct frame frame = reclaim_frame(OWN_UID, "");
        uint32_t first;

        party_give_back(&root, held.lease);
        daemon_fault(&gpumemd, gpumemd.pid, "hang=cuMemRelease:1");
        first = party_say(&root, &frame, MESSAGE_RECLAIM);
        expect_refused(&root, OWN_UID, "", GPUMEM_E_TOO_MANY);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        frame = expect(root.fd, MESSAGE_RECLAIMED);
        ck_assert_uint_eq(frame.serial, first);
        ck_assert_uint_eq(frame.reclaimed.n_bytes, 4 * MIB);
        party_leave(&root);
}

TESTS_MAIN("reclaim", .limit_s = 60, .start = start, .stop = frames_stop)
