/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in several leases: which client is charged, and which lease's end releases them; what cannot be shared; and a
 * lack of memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/table.h"
#include "daemon/policy/report/listing.h"
#include "tests/unit/policy/policy_world.h"
#include "tests/unit/support/failing_alloc.h"

static struct policy_share terms(uint8_t name, uint32_t granted_uid)
{
        return (struct policy_share){
                .token = {{name}}, .n_bytes = 1000, .granted_uid = granted_uid};
}

static int share(struct client *client, const struct held *held, const struct policy_share *share)
{
        int r = policy_share(world.policy, client, held->id, share);

        policy_check(world.policy);
        return r;
}

static int attach(struct client *client, const struct policy_share *share, struct lease **ret_lease)
{
        uint64_t n_bytes = 0;
        uint32_t pool = UINT32_MAX;
        int found = policy_shared_pool(world.policy, client, &share->token, &pool);
        int r = policy_attach(world.policy, client, &share->token, ret_lease, &n_bytes);

        policy_check(world.policy);
        ck_assert_int_eq(found, r == GPUMEM_E_NO_TOKEN ? r : 0);
        ck_assert_uint_eq(pool, found ? UINT32_MAX : 0);
        ck_assert_uint_eq(n_bytes, r ? 0 : 1000);
        return r;
}

static struct lease *must_attach(struct client *client, const struct policy_share *share)
{
        struct lease *lease;

        ck_assert_int_eq(attach(client, share, &lease), 0);
        return lease;
}

static void see_block(const struct block_listing *block, void *n)
{
        *(uint32_t *)n = block->n_charge_transfers;
}

/* Transfers of the only block in the first pool. */
static uint32_t n_transfers(void)
{
        uint32_t n = 0;

        list_blocks(see_block, &n);
        return n;
}

POLICY_TEST(the_charge_is_the_oldest_holders, 8 * MIB)
{
        struct client *a = join(1), *b = join(1), *c = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *of_b, *of_c;

        ck_assert_int_eq(share(a, &held, &token), 0);
        of_b = must_attach(b, &token);
        of_c = must_attach(c, &token);
        ck_assert_ptr_eq(lease_block(of_c), held.block);
        ck_assert_uint_eq(stats().n_leases, 3);
        ck_assert_uint_eq(client_charged(a, 0), 4 * MIB);
        give_back(a, held.lease, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(a, 0), 0);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(n_transfers(), 1);
        expect_totals(4 * MIB, 0, 0);
        /* The youngest lease ends: nothing changes for the others. */
        give_back(c, of_c, RETURN_UNMAPPED);
        ck_assert_uint_eq(client_charged(b, 0), 4 * MIB);
        ck_assert_uint_eq(n_transfers(), 1);
        expect_idle();
        give_back(b, of_b, RETURN_UNMAPPED);
        expect_release(held.block);
        expect_totals(0, 0, 0);
        ck_assert_uint_eq(stats().charged, 0);
}

static void take_block(const struct block_listing *block, void *argument)
{
        *(struct block_listing *)argument = *block;
}

/* The block is of another tenant than the client that is charged for it. */
POLICY_TEST(a_block_is_listed_for_the_tenant_that_is_charged, 8 * MIB)
{
        struct client *a = join(1), *b = join(2);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = terms(1, 2);
        struct block_listing listed;
        struct lease *of_b;

        ck_assert_int_eq(share(a, &held, &token), 0);
        of_b = must_attach(b, &token);
        list_blocks(take_block, &listed);
        ck_assert_ptr_eq(listed.charged, a);
        ck_assert_ptr_eq(listed.tenant, client_tenant(a));
        ck_assert_uint_eq(listed.uid, 1);
        give_back(a, held.lease, RETURN_UNMAPPED);
        list_blocks(take_block, &listed);
        ck_assert_ptr_eq(listed.charged, b);
        ck_assert_ptr_eq(listed.tenant, client_tenant(b));
        ck_assert_uint_eq(listed.uid, 2);
        give_back(b, of_b, RETURN_UNMAPPED);
        list_blocks(take_block, &listed);
        ck_assert_ptr_null(listed.charged);
        ck_assert_uint_eq(listed.uid, 1);
        expect_release(held.block);
}

POLICY_TEST(what_cannot_be_shared_is_told_apart, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held plain = hold(a, 4 * MIB);
        struct held held = hold_shareable(a, 4 * MIB), attached = {.id = 0};
        struct policy_share token = terms(1, POLICY_NO_UID), other = terms(2, POLICY_NO_UID);

        ck_assert_int_eq(share(a, &plain, &token), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_int_eq(share(b, &held, &token), GPUMEM_E_NO_LEASE);
        token.n_bytes = 4 * MIB + 1;
        ck_assert_int_eq(share(a, &held, &token), GPUMEM_E_BAD_REQUEST);
        token.n_bytes = 0;
        ck_assert_int_eq(share(a, &held, &token), GPUMEM_E_BAD_REQUEST);
        token.n_bytes = 1000;
        ck_assert_int_eq(share(a, &held, &token), 0);
        ck_assert_int_eq(share(a, &held, &token), -EEXIST);
        attached.id = lease_id(must_attach(b, &token));
        ck_assert_int_eq(share(b, &attached, &other), GPUMEM_E_NOT_SHAREABLE);
        for (uint8_t name = 2; name < 2 + 63; name++) {
                other = terms(name, POLICY_NO_UID);
                ck_assert_int_eq(share(a, &held, &other), 0);
        }
        other = terms(99, POLICY_NO_UID);
        ck_assert_int_eq(share(a, &held, &other), GPUMEM_E_TOO_MANY);
        give_back(a, held.lease, RETURN_MAPPED);
        ck_assert_int_eq(share(a, &held, &other), GPUMEM_E_NO_LEASE);
}

/* Each allocation fails in turn, and nothing has changed. */
POLICY_TEST(every_failure_leaves_things_as_they_were, 8 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct held held = hold_shareable(a, 4 * MIB);
        struct policy_share token = terms(1, POLICY_NO_UID);
        struct lease *lease = NULL;
        uint64_t n_bytes;
        int r, n = 0;

        do {
                n_until_failure = n++;
                r = policy_share(world.policy, a, held.id, &token);
                n_until_failure = -1;
                ck_assert(r == 0 || r == -ENOMEM);
                policy_check(world.policy);
        } while (r);
        ck_assert_int_ge(n, 3);
        n = 0;
        do {
                n_until_failure = n++;
                r = policy_attach(world.policy, b, &token.token, &lease, &n_bytes);
                n_until_failure = -1;
                ck_assert(r == -ENOMEM ? !lease : r == 0);
                policy_check(world.policy);
        } while (r);
        ck_assert_int_ge(n, 3);
        ck_assert_uint_eq(lease_slot(lease), 0);
}

#define N_BLOCKS   3
#define N_ATTACHED 15

/* A charge that moves is a look at all of the block's leases, so a part of a client's end ends fewer such ones. */
POLICY_TEST(leases_of_blocks_that_others_attach_are_more_work, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);

        for (unsigned i = 0; i < N_BLOCKS; i++) {
                struct held held = hold_shareable(a, 4 * MIB);
                struct policy_share token = terms((uint8_t)(i + 1), POLICY_NO_UID);

                ck_assert_int_eq(share(a, &held, &token), 0);
                for (unsigned j = 0; j < N_ATTACHED; j++)
                        (void)must_attach(b, &token);
        }
        ck_assert(policy_client_drop_some(world.policy, a, 4, world.now_ns));
        policy_check(world.policy);
        ck_assert_uint_eq(client_charged(b, 0), 8 * MIB);
        ck_assert(!policy_client_drop_some(world.policy, a, 4, world.now_ns));
        ck_assert_uint_eq(client_charged(b, 0), 12 * MIB);
        policy_check(world.policy);
}

/* The table of tokens has so many buckets, for ever. */
#define N_BUCKETS 16384

#define N_COLLIDING 192 /* the most of three blocks */

static unsigned bucket_of(const struct policy_token *token)
{
        unsigned hash;

        HASH_VALUE(token, sizeof(*token), hash);
        return hash % N_BUCKETS;
}

/* The next token of the first one's bucket. */
static struct policy_share colliding(uint32_t *number)
{
        struct policy_share first = terms(1, POLICY_NO_UID), next = first;

        do {
                ++*number;
                memcpy(&next.token.bytes[4], number, sizeof(*number));
        } while (bucket_of(&next.token) != bucket_of(&first.token));
        return next;
}

static void expect_found(struct client *client, const struct policy_share *token, bool is_there)
{
        struct lease *lease = NULL;

        ck_assert_int_eq(attach(client, token, &lease), is_there ? 0 : GPUMEM_E_NO_TOKEN);
        if (lease)
                give_back(client, lease, RETURN_UNMAPPED);
}

POLICY_TEST(tokens_of_one_bucket_are_told_apart, 16 * MIB)
{
        struct client *a = join(1), *b = join(1);
        struct policy_share tokens[N_COLLIDING];
        struct held held[3];
        uint32_t number = 0;

        for (unsigned i = 0; i < 3; i++)
                held[i] = hold_shareable(a, 2 * MIB);
        for (unsigned i = 0; i < N_COLLIDING; i++) {
                tokens[i] = colliding(&number);
                ck_assert_int_eq(share(a, &held[i % 3], &tokens[i]), 0);
                if (i + 3 < N_COLLIDING)
                        ck_assert_int_eq(share(a, &held[(i + 1) % 3], &tokens[i]), -EEXIST);
        }
        for (unsigned i = 0; i < N_COLLIDING; i += 2)
                ck_assert_int_eq(policy_unshare(world.policy, a, &tokens[i].token, world.now_ns),
                                 0);
        for (unsigned i = 0; i < N_COLLIDING; i++)
                expect_found(b, &tokens[i], i % 2);
        give_back(a, held[0].lease, RETURN_UNMAPPED);
        for (unsigned i = 0; i < N_COLLIDING; i++)
                expect_found(b, &tokens[i], i % 2 && i % 3);
}

TESTS_MAIN("policy: share")
