/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing past the library: wrong frames are answered, each with its own error, and change nothing. */
#include "base/fdset.h"
#include "tests/live/support/world.h"

static struct link *one, *other;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
        one = open_link("test", NULL);
        other = open_link("test", NULL);
}

static void stop(void)
{
        (void)link_free(one);
        (void)link_free(other);
        gpumemd_stop_empty();
}

static int lease(struct link *on, uint32_t properties, uint64_t *ret_lease)
{
        const struct message_lease wanted = {.n_bytes = 2 * MIB, .properties = properties};
        struct message_leased leased;
        int r = lease_over(on, &wanted, &leased);

        if (!r)
                *ret_lease = leased.lease;
        return r;
}

static int share(struct link *on, uint64_t lease, uint64_t n_bytes, struct frame *ret_reply)
{
        struct frame request = {.share = {.lease = lease, .n_bytes = n_bytes}};

        return ask_over(on, &request, MESSAGE_SHARE, ret_reply);
}

static struct message_attached attach(struct link *on, const struct frame *shared)
{
        struct frame request = {.attach = {.token_low = shared->shared.token_low,
                                           .token_high = shared->shared.token_high}},
                     reply;

        ck_assert_int_eq(ask_over(on, &request, MESSAGE_ATTACH, &reply), 0);
        return reply.attached;
}

/* A lease of the first, and what the other one attached of it. */
static struct message_attached attach_shared(uint64_t n_bytes, uint64_t *ret_lease)
{
        struct frame shared;

        ck_assert_int_eq(lease(one, PROTO_PROPERTY_SHAREABLE, ret_lease), 0);
        ck_assert_int_eq(share(one, *ret_lease, n_bytes, &shared), 0);
        return attach(other, &shared);
}

/* Gives a lease back, which has no answer. */
static void say(struct link *on, enum message_kind kind, uint64_t lease, uint32_t flags)
{
        struct frame frame = {.detach = {.lease = lease, .flags = flags}};

        say_over(on, &frame, kind);
}

/* The same, where it is an error. */
static void expect_no_lease(struct link *on, enum message_kind kind, uint64_t lease)
{
        struct frame request = {.detach = {.lease = lease}};

        ck_assert_int_eq(ask_over(on, &request, kind, NULL), GPUMEM_E_NO_LEASE);
}

TEST(fabric_handles_are_refused_with_a_reason)
{
        static const uint32_t others[] = {0, PROTO_PROPERTY_SHAREABLE, PROTO_PROPERTY_RDMA,
                                          PROTO_PROPERTY_REGISTERED};

        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                struct frame request = {.lease = {.n_bytes = 2 * MIB,
                                                  .properties = others[i] | PROTO_PROPERTY_FABRIC}},
                             reply;
                struct fdset fds = FDSET_NULL;

                ck_assert_int_eq(
                        link_call(one, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds),
                        GPUMEM_E_UNSUPPORTED);
                fdset_deinit(&fds);
                must_contain(reply.error.text, "IMEX channel");
        }
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
}

TEST(only_ones_own_shareable_lease_is_shared)
{
        struct message_attached attached;
        uint64_t plain, shareable;
        struct frame reply;

        ck_assert_int_eq(lease(one, 0, &plain), 0);
        ck_assert_int_eq(share(one, plain, 1, &reply), GPUMEM_E_NOT_SHAREABLE);
        attached = attach_shared(2 * MIB, &shareable);
        ck_assert_int_eq(share(one, shareable + 2, 1, &reply), GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(share(other, shareable, 1, &reply), GPUMEM_E_NO_LEASE);
        ck_assert_int_eq(share(one, shareable, 2 * MIB + 1, &reply), GPUMEM_E_BAD_REQUEST);
        ck_assert_uint_eq(attached.n_bytes, 2 * MIB);
        ck_assert_uint_eq(attached.n_block_bytes, 2 * MIB);
        ck_assert_uint_eq(attached.pool, 0);
        ck_assert_int_eq(share(other, attached.lease, 1, &reply), GPUMEM_E_NOT_SHAREABLE);
        return_over(one, plain, PROTO_RETURN_UNMAPPED);
        return_over(one, shareable, PROTO_RETURN_UNMAPPED);
        say(other, MESSAGE_DETACH, attached.lease, PROTO_RETURN_UNMAPPED);
}

TEST(nobody_ends_another_ones_lease)
{
        uint64_t id, attached = attach_shared(1000, &id).lease;

        expect_no_lease(other, MESSAGE_DETACH, id);
        expect_no_lease(other, MESSAGE_RETURN, id);
        expect_no_lease(one, MESSAGE_DETACH, attached);
        expect_no_lease(other, MESSAGE_DETACH, attached + 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 2);
        return_over(one, id, PROTO_RETURN_UNMAPPED);
        say(other, MESSAGE_DETACH, attached, PROTO_RETURN_UNMAPPED);
        expect_no_lease(other, MESSAGE_DETACH, attached);
}

/* A client that gives its lease back but maps the block on is charged for it once the last one that
 * may use it has gone. */
TEST(a_detached_block_lingers_until_it_is_unmapped)
{
        uint64_t id, attached = attach_shared(1000, &id).lease;

        say(other, MESSAGE_DETACH, attached, 0);
        daemon_await(FIGURE_leases, 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 2 * MIB);
        return_over(one, id, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_lingering, 2 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 2 * MIB);
        expect_no_lease(other, MESSAGE_DETACH, attached);
        unmapped_over(other, attached);
}

TESTS_MAIN("share_frames", .limit_s = 60, .start = start, .stop = stop)
