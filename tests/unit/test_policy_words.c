/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy writes on a client's board, and that it believes nothing of it. */
#include "base/err.h"
#include "proto/board.h"
#include "tests/unit/policy_world.h"

static uint64_t word(struct world *world, const struct client *client, uint32_t slot)
{
        return atomic_load(word_of(world, client, slot));
}

TEST(word_says_busy_before_the_grant_is_told)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct lease *lease;

        atomic_store(word_of(&world, client, 0), UINT64_MAX);
        ask(&world, client, 1, 4 * MIB, 0);
        ck_assert_uint_eq(word(&world, client, 0), UINT64_MAX);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        ck_assert_uint_eq(word(&world, client, 0), board_word(1, BOARD_BUSY));
        lease = expect_grant(&world, client, 1);
        ck_assert_uint_eq(lease_id(lease), 1);
        ck_assert_uint_eq(word(&world, client, 0), board_word(1, BOARD_BUSY));
        ck_assert_uint_eq(word(&world, client, 1), 0);
        world_free(&world);
}

TEST(word_ends_with_the_slot)
{
        struct world world = world_new(100 * MIB);
        struct client *client = join(&world, 1);
        struct held first = hold(&world, client, 4 * MIB), second = hold(&world, client, 4 * MIB);

        give_back(&world, client, first.lease, RETURN_MAPPED);
        ck_assert_uint_eq(word(&world, client, 0), board_word(first.id, BOARD_BUSY));
        unmap(&world, client, first.id);
        ck_assert_uint_eq(word(&world, client, 0), 0);
        atomic_store(word_of(&world, client, 1), 77);
        give_back(&world, client, second.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(word(&world, client, 1), 0);
        world_free(&world);
}

TEST(attached_lease_has_a_word_too)
{
        struct world world = world_new(100 * MIB);
        struct client *a = join(&world, 1), *b = join(&world, 1);
        struct policy_ask request = {
                .serial = 1, .n_bytes = 2 * MIB, .properties = POLICY_SHAREABLE};
        struct policy_share terms = {.token = {{1}}, .n_bytes = 1, .granted_uid = POLICY_NO_UID};
        struct lease *lease;
        uint64_t n_bytes;

        ask_with(&world, a, &request);
        created(&world, take(&world, ACTION_CREATE).block, 0);
        lease = expect_grant(&world, a, 1);
        ck_assert_int_eq(policy_share(world.policy, a, lease_id(lease), &terms), 0);
        ck_assert_int_eq(policy_attach(world.policy, b, &terms.token, &lease, &n_bytes), 0);
        ck_assert_uint_eq(word(&world, b, 0), board_word(lease_id(lease), BOARD_BUSY));
        world_free(&world);
}

TEST(client_without_words_is_served)
{
        struct world world = world_new(100 * MIB);
        struct client *client;

        ck_assert_int_eq(policy_add_client(world.policy, &(struct tenant_key){.uid = 1}, 10, NULL,
                                           NULL, &client),
                         0);
        give_back(&world, client, hold(&world, client, 4 * MIB).lease, RETURN_UNMAPPED);
        world_free(&world);
}

TESTS_MAIN("policy: words")
