/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that a network adapter may know: each is made for one request, is never idle, and ends with its lease. */
#include "base/err.h"
#include "tests/unit/policy/policy_world.h"

static const uint32_t kinds[] = {POLICY_REGISTERED, POLICY_REGISTERED | POLICY_RDMA,
                                 POLICY_REGISTERED | POLICY_SHAREABLE};

static struct held hold_registered(struct client *client, uint64_t n_bytes, int i)
{
        return hold_with(client,
                         &(const struct policy_ask){.n_bytes = n_bytes, .properties = kinds[i]});
}

static uint64_t id_of(const struct held *held)
{
        return block_id(held->block);
}

/* Neither of the tenant's cached blocks nor of its idle leases, of the same size. */
POLICY_TEST(a_registered_block_is_a_new_one, 64 * MIB, .to = ARRAY_SIZE(kinds))
{
        struct client *a = join(1);
        struct held idle = hold_idle(a, 2 * MIB);
        struct held cached = cache(a, 2 * MIB, RETURN_UNMAPPED);
        struct held held = hold_registered(a, 2 * MIB, _i);

        ck_assert_uint_ne(id_of(&held), id_of(&cached));
        ck_assert_uint_ne(id_of(&held), id_of(&idle));
        ck_assert_uint_eq(block_properties(held.block), kinds[_i]);
        ck_assert(!was_revoked(a, idle.lease));
        expect_totals(4 * MIB, 2 * MIB, 0);
}

POLICY_TEST(its_block_goes_back_to_the_driver_at_once, 64 * MIB, .to = ARRAY_SIZE(kinds))
{
        struct client *a = join(1);
        struct held held = hold_registered(a, 2 * MIB, _i);

        give_back(a, held.lease, RETURN_UNMAPPED);
        expect_release(held.block);
        expect_totals(0, 0, 0);
        (void)hold_registered(a, 2 * MIB, _i);
        expect_totals(2 * MIB, 0, 0);
}

/* A client that lies on its board loses nothing, and others get nothing. */
POLICY_TEST(it_is_never_idle, 4 * MIB, .to = ARRAY_SIZE(kinds))
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_registered(a, 4 * MIB, _i);

        mark_idle(a, held.lease);
        see_idle();
        expect_refused(b, 1, 4 * MIB, 0, GPUMEM_E_REFUSED);
        ck_assert(!was_revoked(a, held.lease));
        expect_totals(4 * MIB, 0, 0);
}

/* No client waits for it any more when the driver has made it. */
POLICY_TEST(one_that_comes_too_late_is_not_cached, 64 * MIB, .to = ARRAY_SIZE(kinds))
{
        struct client *a = join(1);
        struct block *block;

        ask_with(a, &(const struct policy_ask){.serial = 1,
                                               .n_bytes = 2 * MIB,
                                               .properties = kinds[_i],
                                               .deadline_ns = UINT64_MAX});
        block = expect_create(a, 1);
        expect_cancelled(a, 1);
        created(block, 0);
        expect_release(block);
        expect_totals(0, 0, 0);
}

/* What may be registered may not be shared. */
POLICY_TEST(it_is_shared_only_if_it_is_shareable, 64 * MIB, .to = ARRAY_SIZE(kinds))
{
        const struct policy_share share = {
                .token = {{1}}, .n_bytes = 1000, .granted_uid = POLICY_NO_UID};
        struct client *a = join(1);
        struct held held = hold_registered(a, 2 * MIB, _i);
        int r = policy_share(world.policy, a, held.id, &share);

        ck_assert_int_eq(r, kinds[_i] & POLICY_SHAREABLE ? 0 : GPUMEM_E_NOT_SHAREABLE);
}

TESTS_MAIN("policy: registered")
