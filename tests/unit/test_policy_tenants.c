/* Tenants of whom nothing but memory is left: a user has so many at a time. */
#include <stdio.h>

#include "base/err.h"
#include "daemon/policy/objects/tenant.h"
#include "tests/unit/policy_world.h"

#define UID   1
#define OTHER 2

static struct client *join_in(struct world *world, uint32_t uid, unsigned n)
{
        struct tenant_key key = {.uid = uid};
        struct client *client;

        (void)snprintf(key.realm, sizeof(key.realm), "/container-%u", n);
        ck_assert_int_eq(policy_add_client(world->policy, &key, 1, NULL, NULL, &client), 0);
        return client;
}

static void end(struct world *world, struct client *client)
{
        ck_assert(!policy_client_eof(world->policy, client, world->now_ns));
        ck_assert(policy_client_dead(world->policy, client, world->now_ns));
}

/* Of pinned memory all that is cached may stay. */
static struct world world_of_pinned_memory(uint64_t max_bytes)
{
        const struct policy_pool pool = {
                .kind = POLICY_PINNED, .max_bytes = max_bytes, .capacity_bytes = max_bytes};
        struct world world = {.now_ns = 1000};
        uint32_t id;

        ck_assert_int_eq(policy_new(&world.policy), 0);
        ck_assert_int_eq(policy_add_pool(world.policy, &pool, &id), 0);
        return world;
}

static struct action must_take(struct world *world, enum action_kind kind)
{
        struct action action = policy_next_action(world->policy);

        ck_assert_int_eq(action.kind, kind);
        return action;
}

/* As cache() does, but for the checks: they look at every tenant, of which there are many. */
static struct block *leave_cached(struct world *world, struct client *client)
{
        const struct policy_ask wanted = {.n_bytes = 2 * MIB};
        struct block *block;
        struct lease *lease;

        policy_lease(world->policy, client, &wanted, world->now_ns);
        block = must_take(world, ACTION_CREATE).block;
        policy_created(world->policy, block, 0, world, world->now_ns);
        lease = must_take(world, ACTION_GRANT).lease;
        ck_assert_int_eq(policy_return(world->policy, client, lease_id(lease), RETURN_UNMAPPED,
                                       world->now_ns),
                         0);
        return block;
}

static void must_release(struct world *world, const struct block *block)
{
        struct action action = must_take(world, ACTION_RELEASE);

        ck_assert_ptr_eq(action.block, block);
        policy_released(world->policy, action.block, world->now_ns);
}

START_TEST(a_user_has_so_many_tenants_that_have_gone)
{
        static struct block *blocks[TENANTS_A_USER + 2];
        struct world world = world_of_pinned_memory((TENANTS_A_USER + 8) * 2 * MIB);
        struct client *first = join_in(&world, UID, 0), *client;

        blocks[0] = leave_cached(&world, first);
        for (unsigned i = 1; i < TENANTS_A_USER; i++) {
                client = join_in(&world, UID, i);
                blocks[i] = leave_cached(&world, client);
                end(&world, client);
        }
        (void)must_take(&world, ACTION_NONE);
        /* One who is there makes no room, nor does another user take any. */
        client = join_in(&world, OTHER, 0);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, 7);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER);
        must_release(&world, blocks[1]);
        (void)must_take(&world, ACTION_NONE);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER + 1);
        (void)must_take(&world, ACTION_NONE);
        (void)leave_cached(&world, client);
        end(&world, client);
        client = join_in(&world, UID, TENANTS_A_USER + 2);
        must_release(&world, blocks[2]);
        (void)must_take(&world, ACTION_NONE);
        world_free(&world);
}
END_TEST

int main(void)
{
        const TTest *tests[] = {
                a_user_has_so_many_tenants_that_have_gone,
        };

        return run_tests("policy: tenants", tests, ARRAY_SIZE(tests));
}
