/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy writes on a client's board, and that it believes nothing of it. */
#include "base/err.h"
#include "proto/board.h"
#include "tests/unit/policy/policy_world.h"

static uint64_t word(const struct client *client, uint32_t slot)
{
        return atomic_load(word_of(client, slot));
}

POLICY_TEST(word_says_busy_before_the_grant_is_told, 100 * MIB)
{
        struct client *client = join(1);
        struct lease *lease;

        atomic_store(word_of(client, 0), UINT64_MAX);
        ask(client, 1, 4 * MIB, 0);
        ck_assert_uint_eq(word(client, 0), UINT64_MAX);
        created(take(ACTION_CREATE).block, 0);
        ck_assert_uint_eq(word(client, 0), board_word(1, BOARD_BUSY));
        lease = expect_grant(client, 1);
        ck_assert_uint_eq(lease_id(lease), 1);
        ck_assert_uint_eq(word(client, 0), board_word(1, BOARD_BUSY));
        ck_assert_uint_eq(word(client, 1), 0);
}

TESTS_MAIN("policy: words")
