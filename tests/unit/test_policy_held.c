/* Bytes of an earlier daemon's blocks that clients declare; times and peaks that listings show. */
#include "base/err.h"
#include "daemon/policy/report/listing.h"
#include "tests/unit/policy_world.h"

static int declare(struct world *world, struct client *client, uint32_t pool, uint64_t n_bytes)
{
        int r = policy_declare(world->policy, client, pool, n_bytes, world->now_ns);

        policy_check(world->policy);
        return r;
}

START_TEST(declared_bytes_are_charged_and_not_reserved)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held held;

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 20 * MIB), 0);
        held = hold(&world, client, 4 * MIB);
        ck_assert_uint_eq(client_charged(client, 0), 24 * MIB);
        ck_assert_uint_eq(client_declared(client, 0), 20 * MIB);
        ck_assert_uint_eq(stats(&world).charged, 24 * MIB);
        ck_assert_uint_eq(stats(&world).declared, 20 * MIB);
        expect_totals(&world, 4 * MIB, 0, 0);
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        ck_assert_int_eq(declare(&world, client, 0, 0), 0);
        ck_assert_uint_eq(client_charged(client, 0), 0);
        ck_assert(!client_maps_anything(client));
        world_free(&world);
}
END_TEST

START_TEST(nobody_declares_more_than_it_said_it_held)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1), *fresh = join(&world, 1);

        client_set_held(client, 30 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 31 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 0, UINT64_MAX), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 2, MIB), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(declare(&world, client, 0, 20 * MIB), 0);
        ck_assert_int_eq(declare(&world, client, 1, 11 * MIB), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(declare(&world, client, 1, 10 * MIB), 0);
        ck_assert_int_eq(declare(&world, client, 0, 10 * MIB), 0);
        ck_assert_uint_eq(client_declared(client, 0), 10 * MIB);
        ck_assert_int_eq(declare(&world, fresh, 0, 1), GPUMEM_E_BAD_REQUEST);
        world_free(&world);
}
END_TEST

/* Each of many that have left is believed, but all of them together can have no more than fits. */
START_TEST(no_sum_of_declarations_passes_what_can_be_counted)
{
        const uint64_t n_bytes = UINT64_C(1) << 60;
        struct world world = world_new(n_bytes);
        struct client *clients[9];
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++) {
                int r;

                clients[i] = join(&world, 1);
                client_set_held(clients[i], UINT64_MAX);
                ck_assert_int_eq(declare(&world, clients[i], 0, n_bytes + 1), GPUMEM_E_BAD_REQUEST);
                r = declare(&world, clients[i], 0, n_bytes);
                ck_assert(r == 0 || r == GPUMEM_E_TOO_MANY);
                n += r == 0;
                (void)policy_client_eof(world.policy, clients[i], world.now_ns);
        }
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_lt(n, 9);
        ck_assert_uint_eq(stats(&world).declared, n * n_bytes);
        for (unsigned i = 0; i < ARRAY_SIZE(clients); i++)
                ck_assert(policy_client_dead(world.policy, clients[i], world.now_ns));
        ck_assert_uint_eq(stats(&world).declared, 0);
        world_free(&world);
}
END_TEST

/* They are mapped until the process has ended, like all else. */
START_TEST(declared_bytes_are_charged_until_both_signs)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);

        client_set_held(client, 8 * MIB);
        ck_assert_int_eq(declare(&world, client, 0, 8 * MIB), 0);
        ck_assert(!policy_client_eof(world.policy, client, world.now_ns));
        policy_check(world.policy);
        ck_assert(client_maps_anything(client));
        ck_assert_uint_eq(stats(&world).charged, 8 * MIB);
        ck_assert(policy_client_dead(world.policy, client, world.now_ns));
        policy_check(world.policy);
        ck_assert_uint_eq(stats(&world).charged, 0);
        ck_assert_uint_eq(stats(&world).declared, 0);
        world_free(&world);
}
END_TEST

static void take_block(const struct block_listing *block, void *argument)
{
        *(struct block_listing *)argument = *block;
}

START_TEST(a_block_is_dated_when_it_is_made_and_at_each_change)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 7);
        struct block_listing listed;
        struct held held;

        world.now_ns = 5000;
        held = hold(&world, client, 4 * MIB);
        policy_list_blocks(world.policy, 0, take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_LEASED);
        ck_assert_ptr_eq(listed.charged, client);
        ck_assert_uint_eq(listed.uid, 7);
        ck_assert_uint_eq(listed.lease_id, held.id);
        ck_assert_uint_eq(listed.since_ns, 5000);
        world.now_ns = 9000;
        give_back(&world, client, held.lease, RETURN_UNMAPPED);
        policy_list_blocks(world.policy, 0, take_block, &listed);
        ck_assert_int_eq(listed.state, BLOCK_IS_CACHED);
        ck_assert_ptr_null(listed.charged);
        ck_assert_uint_eq(listed.lease_id, 0);
        ck_assert_uint_eq(listed.made_ns, 5000);
        ck_assert_uint_eq(listed.since_ns, 9000);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *const tests[] = {
                declared_bytes_are_charged_and_not_reserved,
                nobody_declares_more_than_it_said_it_held,
                no_sum_of_declarations_passes_what_can_be_counted,
                declared_bytes_are_charged_until_both_signs,
                a_block_is_dated_when_it_is_made_and_at_each_change,
        };

        return run_tests("policy_held", tests, ARRAY_SIZE(tests));
}
