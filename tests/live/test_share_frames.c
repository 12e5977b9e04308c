/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing past the library: frames that a client should not send are answered, each with its own
 * error, and change nothing. */
#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

static struct daemon gpumemd;
static struct link *link, *other;

static struct link *open_link(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *opened;

        ck_assert_int_eq(link_new(NULL, "test", &opened, &welcome, &fds), 0);
        fdset_deinit(&fds);
        return opened;
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
        link = open_link();
        other = open_link();
}

static void stop(void)
{
        (void)link_free(link);
        (void)link_free(other);
        daemon_stop_empty(&gpumemd);
}

/* Asks, lets the fds of the answer go, and says how it went. */
static int call(struct link *on, struct frame *request, enum message_kind kind,
                enum message_kind reply_kind, struct frame *ret_reply)
{
        struct fdset fds = FDSET_NULL;
        int r = link_call(on, request, kind, reply_kind, ret_reply, &fds);

        fdset_deinit(&fds);
        return r;
}

static int lease(struct link *on, uint32_t properties, uint64_t *ret_lease)
{
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = 2 * MIB;
        request.lease.properties = properties;
        r = call(on, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply);
        if (!r)
                *ret_lease = reply.leased.lease;
        return r;
}

static int share(struct link *on, uint64_t lease, uint64_t n_bytes, struct frame *ret_reply)
{
        struct frame request = FRAME_NULL;

        request.share.lease = lease;
        request.share.n_bytes = n_bytes;
        return call(on, &request, MESSAGE_SHARE, MESSAGE_SHARED, ret_reply);
}

static int attach(struct link *on, const struct frame *shared, struct frame *ret_reply)
{
        struct frame request = FRAME_NULL;

        request.attach.token_low = shared->shared.token_low;
        request.attach.token_high = shared->shared.token_high;
        return call(on, &request, MESSAGE_ATTACH, MESSAGE_ATTACHED, ret_reply);
}

/* Gives a lease back, which has no answer. */
static void say(struct link *on, enum message_kind kind, uint64_t lease, uint32_t flags)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = lease;
        frame.detach.flags = flags;
        ck_assert_int_eq(link_send(on, &frame, kind), 0);
}

/* The same, where it is an error. */
static void expect_no_lease(struct link *on, enum message_kind kind, uint64_t lease)
{
        struct frame request = FRAME_NULL, reply;

        request.detach.lease = lease;
        ck_assert_int_eq(call(on, &request, kind, MESSAGE_ERROR, &reply), GPUMEM_E_NO_LEASE);
}

TEST(properties_that_are_not_served_are_refused)
{
        uint64_t id;

        ck_assert_int_eq(lease(link, PROTO_PROPERTY_RDMA, &id), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(lease(link, PROTO_PROPERTY_FABRIC, &id), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(lease(link, PROTO_PROPERTY_FABRIC | PROTO_PROPERTY_SHAREABLE, &id),
                         GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(lease(link, PROTO_PROPERTY_SHAREABLE, &id), 0);
        say(link, MESSAGE_RETURN, id, PROTO_RETURN_UNMAPPED);
}

TEST(only_ones_own_shareable_lease_is_shared)
{
        uint64_t plain, shareable;
        struct frame reply, attached;

        ck_assert_int_eq(lease(link, 0, &plain), 0);
        ck_assert_int_eq(lease(link, PROTO_PROPERTY_SHAREABLE, &shareable), 0);
        ck_assert_int_eq(share(link, plain, 1, &reply), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_int_eq(share(link, shareable + 1, 1, &reply), GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(share(other, shareable, 1, &reply), GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(share(link, shareable, 2 * MIB + 1, &reply), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(share(link, shareable, 2 * MIB, &reply), 0);
        ck_assert_int_eq(attach(other, &reply, &attached), 0);
        ck_assert_uint_eq(attached.attached.n_bytes, 2 * MIB);
        ck_assert_uint_eq(attached.attached.n_block_bytes, 2 * MIB);
        ck_assert_uint_eq(attached.attached.pool, 0);
        ck_assert_int_eq(share(other, attached.attached.lease, 1, &reply), GPUMEM_E_NOT_SHAREABLE);
        say(link, MESSAGE_RETURN, plain, PROTO_RETURN_UNMAPPED);
        say(link, MESSAGE_RETURN, shareable, PROTO_RETURN_UNMAPPED);
        say(other, MESSAGE_DETACH, attached.attached.lease, PROTO_RETURN_UNMAPPED);
}

TEST(nobody_ends_another_ones_lease)
{
        struct frame reply, attached;
        uint64_t id;

        ck_assert_int_eq(lease(link, PROTO_PROPERTY_SHAREABLE, &id), 0);
        ck_assert_int_eq(share(link, id, 1000, &reply), 0);
        ck_assert_int_eq(attach(other, &reply, &attached), 0);
        expect_no_lease(other, MESSAGE_DETACH, id);
        expect_no_lease(other, MESSAGE_RETURN, id);
        expect_no_lease(link, MESSAGE_DETACH, attached.attached.lease);
        expect_no_lease(other, MESSAGE_DETACH, attached.attached.lease + 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 2);
        say(link, MESSAGE_RETURN, id, PROTO_RETURN_UNMAPPED);
        say(other, MESSAGE_DETACH, attached.attached.lease, PROTO_RETURN_UNMAPPED);
        expect_no_lease(other, MESSAGE_DETACH, attached.attached.lease);
}

/* A client that gives its lease back but maps the block on is charged for it once the last one that
 * may use it has gone. */
TEST(a_detached_block_lingers_until_it_is_unmapped)
{
        struct frame reply, attached;
        uint64_t id;

        ck_assert_int_eq(lease(link, PROTO_PROPERTY_SHAREABLE, &id), 0);
        ck_assert_int_eq(share(link, id, 1000, &reply), 0);
        ck_assert_int_eq(attach(other, &reply, &attached), 0);
        say(other, MESSAGE_DETACH, attached.attached.lease, 0);
        daemon_await(FIGURE_leases, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        say(link, MESSAGE_RETURN, id, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_lingering, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 2 * MIB);
        expect_no_lease(other, MESSAGE_DETACH, attached.attached.lease);
        say(other, MESSAGE_UNMAPPED, attached.attached.lease, 0);
}

TESTS_MAIN("share_frames", .limit_s = 60, .start = start, .stop = stop)
