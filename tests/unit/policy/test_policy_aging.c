/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that no process has used for some time: what goes back to the driver, and what stays. */
#include "daemon/policy/aging.h"

#include "base/err.h"
#include "daemon/policy/objects/unmap_timeout.h"
#include "proto/board.h"
#include "tests/unit/policy/policy_world.h"

#define SECOND UINT64_C(1000000000)
#define ALL    1000

POLICY_TEST(what_cannot_go_is_in_no_requests_way, 64 * MIB)
{
        struct client *a = join(1);
        const uint64_t sizes[] = {16 * MIB, 16 * MIB, 4 * MIB, 2 * MIB};
        struct held held[ARRAY_SIZE(sizes)];
        struct lease *lease;

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 28 * MIB, 0), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
                held[i] = hold(a, sizes[i]);
        for (unsigned i = 0; i < 3; i++)
                give_back(a, held[i].lease, RETURN_UNMAPPED);
        for (unsigned i = 0; i < 2; i++) {
                (void)policy_age(world.policy, 1, SECOND);
                policy_check(world.policy);
                expect_idle();
                ck_assert(policy_ages(world.policy));
        }
        (void)policy_age(world.policy, 1, SECOND);
        policy_check(world.policy);
        expect_release(held[2].block);
        /* 4 MiB are too much, and no block is that small. */
        while (policy_age(world.policy, 1, SECOND))
                continue;
        give_back(a, held[3].lease, RETURN_UNMAPPED);
        ck_assert(policy_ages(world.policy));
        (void)policy_age(world.policy, 2, SECOND);
        /* Removes the block at which the next scan would begin. */
        policy_check(world.policy);
        ask(a, 9, 2 * MIB, 0);
        lease = expect_grant(a, 9);
        ck_assert_ptr_eq(lease_block(lease), held[3].block);
        policy_check(world.policy);
        give_back(a, lease, RETURN_UNMAPPED);
        (void)policy_age(world.policy, 3, SECOND);
        expect_release(held[3].block);
        ck_assert(!policy_ages(world.policy));
}

static void begin_aging(uint64_t keep_bytes)
{
        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, keep_bytes, SECOND), 0);
}

static void look(uint64_t n_ns_later)
{
        world.now_ns += n_ns_later;
        ck_assert(!policy_age(world.policy, ALL, world.now_ns));
        policy_check(world.policy);
}

POLICY_TEST(what_every_look_finds_idle_is_taken, 64 * MIB)
{
        struct client *a = join(1);
        struct held idle = hold_idle(a, 4 * MIB), busy = hold(a, 2 * MIB);

        begin_aging(0);
        look(5 * SECOND); /* The first to see it: it may have been in use until now. */
        expect_idle();
        look(SECOND - 1);
        expect_idle();
        look(1);
        expect_taken(a, &idle);
        unmap(a, idle.id);
        look(5 * SECOND);
        expect_idle();
        ck_assert(!was_revoked(a, busy.lease));
        expect_totals(2 * MIB, 0, 0);
}

static void mark_busy(const struct client *client, const struct held *held)
{
        atomic_store(word_of(client, lease_slot(held->lease)),
                     board_word(lease_id(held->lease), BOARD_BUSY));
}

POLICY_TEST(what_was_used_meanwhile_begins_again, 64 * MIB)
{
        struct client *a = join(1);
        struct held held = hold_idle(a, 4 * MIB);

        begin_aging(0);
        look(0);
        mark_busy(a, &held);
        look(SECOND / 2);
        mark_idle(a, held.lease);
        look(SECOND / 4);
        look(SECOND / 2);
        expect_idle();
        look(SECOND / 2);
        expect_taken(a, &held);
}

/* A block that was leased again has the time of its own lease. */
POLICY_TEST(another_lease_begins_again, 64 * MIB)
{
        struct client *a = join(1);
        struct held held = hold_idle(a, 4 * MIB);
        struct lease *lease;

        begin_aging(0);
        look(0);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ask(a, 9, 4 * MIB, 0);
        lease = expect_grant(a, 9);
        mark_idle(a, lease);
        look(SECOND);
        expect_idle();
        look(SECOND);
        ck_assert(was_revoked(a, lease));
}

POLICY_TEST(what_the_pool_keeps_is_cached, 64 * MIB)
{
        struct client *a = join(1);
        struct held first = hold_idle(a, 4 * MIB), second = hold_idle(a, 4 * MIB);

        begin_aging(6 * MIB);
        look(0);
        look(SECOND);
        /* The one made last is looked at first. */
        expect_taken(a, &first);
        ck_assert(was_revoked(a, second.lease));
        expect_totals(0, 4 * MIB, 4 * MIB);
        unmap(a, first.id);
        look(SECOND);
        expect_idle();
        expect_totals(0, 4 * MIB, 0);
}

POLICY_TEST(a_tenant_keeps_its_minimum, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held first = hold_idle(a, 4 * MIB), second = hold_idle(a, 4 * MIB);
        struct held other = hold_idle(b, 2 * MIB);

        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 4 * MIB, 0), 0);
        begin_aging(0);
        look(0);
        look(SECOND);
        ck_assert(!was_revoked(b, other.lease));
        ck_assert(!was_revoked(a, first.lease));
        expect_taken(a, &second);
        expect_idle();
}

POLICY_TEST(what_would_stay_mapped_is_left, 64 * MIB)
{
        struct client *a = join(1);
        const struct policy_ask request = {
                .pool = 1, .serial = 1, .n_bytes = 4 * MIB, .keeps_mapped = true};
        struct held held = hold_with(a, &request);

        mark_idle(a, held.lease);
        ck_assert_int_eq(policy_set_pool_keep(world.policy, 1, 0, SECOND), 0);
        look(0);
        look(5 * SECOND);
        expect_idle();
        ck_assert(!was_revoked(a, held.lease));
}

/* Also where blocks come and go between two parts. */
POLICY_TEST(a_look_may_be_cut_into_parts, 64 * MIB)
{
        struct client *a = join(1);
        struct held held[5];
        unsigned n_parts = 1;

        for (unsigned i = 0; i < ARRAY_SIZE(held); i++)
                held[i] = hold_idle(a, 2 * MIB);
        begin_aging(0);
        while (policy_age(world.policy, 2, world.now_ns))
                n_parts++;
        ck_assert_uint_eq(n_parts, 3);
        world.now_ns += SECOND;
        ck_assert(policy_age(world.policy, 1, world.now_ns));
        expect_taken(a, &held[4]);
        give_back(a, held[3].lease, RETURN_UNUSED);
        expect_release(held[3].block);
        while (policy_age(world.policy, 1, world.now_ns))
                policy_check(world.policy);
        for (unsigned i = 0; i < 3; i++)
                ck_assert(was_revoked(a, held[i].lease));
}

POLICY_TEST(no_look_is_due_without_leases, 64 * MIB)
{
        struct client *a = join(1);
        struct held held = hold_idle(a, 4 * MIB);

        ck_assert(!policy_ages(world.policy));
        begin_aging(0);
        ck_assert(policy_ages(world.policy));
        look(0);
        look(SECOND);
        expect_taken(a, &held);
        ck_assert(!policy_ages(world.policy));
}

/* Returns the bytes that went. */
static uint64_t give_back_some(uint64_t n_bytes)
{
        uint64_t n_bytes_before = stats().lingering;

        policy_give_back(world.policy, 0, n_bytes);
        while (policy_give_some_back(world.policy, 1, world.now_ns))
                policy_check(world.policy);
        policy_check(world.policy);
        return stats().lingering - n_bytes_before;
}

/* What the pool keeps otherwise, too; but not what is in use, and not a tenant's minimum. */
POLICY_TEST(what_is_unused_makes_room_for_others, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held mapped = cache(b, 8 * MIB, RETURN_MAPPED);
        struct held cached = cache(b, 6 * MIB, RETURN_UNMAPPED);
        struct held busy = hold(a, 2 * MIB), idle = hold_idle(a, 4 * MIB);
        struct held least = hold_idle(a, 10 * MIB);

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 64 * MIB, POLICY_KEEP_FOR_EVER), 0);
        ck_assert_int_eq(policy_set_pool_min(world.policy, 0, 10 * MIB, 0), 0);
        ck_assert_uint_eq(give_back_some(1), 6 * MIB);
        expect_release(cached.block);
        ck_assert_uint_eq(give_back_some(1), 8 * MIB);
        expect_release(mapped.block);
        unmap(b, mapped.id);
        ck_assert_uint_eq(give_back_some(64 * MIB), 4 * MIB);
        expect_taken(a, &idle);
        unmap(a, idle.id);
        ck_assert_uint_eq(give_back_some(64 * MIB), 0);
        ck_assert(!was_revoked(a, least.lease));
        ck_assert(!was_revoked(a, busy.lease));
        expect_totals(12 * MIB, 0, 0);
}

POLICY_TEST(figures_tell_what_is_unused, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held idle = hold_idle(a, 10 * MIB), cached;

        (void)hold(a, 20 * MIB);
        cached = cache(b, 6 * MIB, RETURN_UNMAPPED);
        see_idle();
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 10 * MIB);
        ck_assert_uint_eq(stats().leased_peak, 36 * MIB);
        ck_assert_uint_eq(stats().cached_peak, 6 * MIB);
        begin_aging(0);
        look(0);
        look(SECOND);
        expect_release(cached.block);
        expect_taken(a, &idle);
        ck_assert_uint_eq(policy_idle_bytes(world.policy, 0), 0);
        ck_assert_uint_eq(stats().n_aged, 2);
        ck_assert_int_eq(policy_reset_peaks(world.policy, a, SCOPE_NODE, 0), 0);
        ck_assert_uint_eq(stats().leased_peak, 20 * MIB);
        ck_assert_uint_eq(stats().cached_peak, 0);
}

/* A part looks at so many blocks, and the next one at others. */
POLICY_TEST(room_is_made_in_parts, 64 * MIB)
{
        struct client *a = join(1);
        struct held busy = hold(a, 2 * MIB), idle = hold_idle(a, 4 * MIB), cached[2];

        cache_several(a, 8 * MIB, ARRAY_SIZE(cached), cached);
        policy_give_back(world.policy, 0, 64 * MIB);
        for (unsigned i = 0; i < ARRAY_SIZE(cached); i++) {
                unmap(a, cached[i].id);
                ck_assert(policy_give_some_back(world.policy, 1, world.now_ns));
                policy_check(world.policy);
                expect_release(cached[i].block);
                expect_idle();
        }
        ck_assert(policy_give_some_back(world.policy, 1, world.now_ns));
        expect_idle();
        ck_assert(policy_give_some_back(world.policy, 1, world.now_ns));
        expect_taken(a, &idle);
        while (policy_give_some_back(world.policy, 1, world.now_ns))
                policy_check(world.policy);
        ck_assert(!was_revoked(a, busy.lease));
        policy_give_back(world.policy, 0, 0);
        ck_assert(!policy_give_some_back(world.policy, ALL, world.now_ns));
}

/* It is stopped, perhaps. */
POLICY_TEST(who_does_not_unmap_is_asked_last, 64 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held late = hold_idle(a, 4 * MIB), next = hold_idle(a, 4 * MIB);
        struct held mapped = cache(a, 6 * MIB, RETURN_MAPPED), other;

        ck_assert_uint_eq(give_back_some(1), 6 * MIB);
        expect_release(mapped.block);
        unmap(a, mapped.id);
        mapped = cache(a, 6 * MIB, RETURN_MAPPED);
        policy_give_back(world.policy, 0, 12 * MIB);
        ck_assert_uint_eq(give_back_some(10 * MIB), 10 * MIB);
        expect_release(mapped.block);
        unmap(a, mapped.id);
        expect_taken(a, &late);
        ck_assert_uint_eq(stats().returning, 4 * MIB);
        later(UNMAP_TIMEOUT_NS);
        ck_assert_uint_eq(stats().returning, 0);
        mapped = cache(a, 6 * MIB, RETURN_MAPPED);
        other = hold_idle(b, 2 * MIB);
        ck_assert_uint_eq(give_back_some(1), 2 * MIB);
        expect_taken(b, &other);
        ck_assert(!was_revoked(a, next.lease));
        unmap(b, other.id);
        ck_assert_uint_eq(give_back_some(64 * MIB), 10 * MIB);
        expect_release(mapped.block);
        expect_taken(a, &next);
}

/* Memory of which nothing more is to be expected. */
POLICY_TEST(what_cannot_come_back_is_not_waited_for, 64 * MIB)
{
        const struct policy_ask request = {
                .pool = 1, .serial = 1, .n_bytes = 4 * MIB, .keeps_mapped = true};
        struct client *a = join(1);
        struct held kept = hold_with(a, &request), cached = cache(a, 2 * MIB, RETURN_UNMAPPED);
        struct pool_stats pinned;

        ck_assert_uint_eq(give_back_some(1), 2 * MIB);
        ck_assert_uint_eq(stats().returning, 2 * MIB);
        expect_release(cached.block);
        ck_assert_int_eq(policy_set_unreleasable(world.policy, 0, 8 * MIB, world.now_ns), 0);
        ck_assert_uint_eq(stats().lingering, 8 * MIB);
        ck_assert_uint_eq(stats().returning, 0);
        policy_mark_unusable(world.policy, kept.block, world.now_ns);
        give_back(a, kept.lease, RETURN_MAPPED);
        ck_assert_int_eq(policy_pool_stats(world.policy, 1, &pinned), 0);
        ck_assert_uint_eq(pinned.lingering, 4 * MIB);
        ck_assert_uint_eq(pinned.returning, 0);
        ck_assert_int_eq(policy_set_unreleasable(world.policy, 0, 0, world.now_ns), 0);
        expect_release(kept.block);
        unmap(a, kept.id);
}

/* And what is younger does not hold it up, though it was cached before. */
POLICY_TEST(what_was_idle_before_it_was_returned_is_as_old, 64 * MIB)
{
        struct client *a = join(1);
        struct held old = hold_idle(a, 4 * MIB), young = hold(a, 2 * MIB);

        begin_aging(0);
        look(0);
        world.now_ns += SECOND / 2;
        give_back(a, young.lease, RETURN_UNMAPPED);
        give_back(a, old.lease, RETURN_UNMAPPED);
        look(SECOND / 2 - 1);
        expect_idle();
        look(1);
        expect_release(old.block);
        expect_idle();
        ck_assert(policy_ages(world.policy));
        look(SECOND / 2 - 1);
        expect_idle();
        look(1);
        expect_release(young.block);
        ck_assert(!policy_ages(world.policy));
}

/* It need not wait for an event that has nothing else to serve. */
POLICY_TEST(what_was_taken_serves_one_that_waits_with_the_next_event, 8 * MIB)
{
        struct client *a = join(1), *c = join(2);
        struct held held = hold(a, 4 * MIB), cached = cache(c, 2 * MIB, RETURN_UNMAPPED);

        ck_assert_int_eq(policy_set_pool_keep(world.policy, 0, 8 * MIB, 0), 0);
        (void)hold(join(3), 2 * MIB);
        ask(a, 1, 4 * MIB, UINT64_MAX);
        expect_idle();
        mark_idle(a, held.lease);
        look(0);
        expect_idle();
        ask(c, 1, 2 * MIB, 0);
        ck_assert_ptr_eq(lease_block(expect_grant(c, 1)), cached.block);
        ck_assert_ptr_eq(lease_block(expect_grant(a, 1)), held.block);
}

TESTS_MAIN("policy: aging")
