/* SPDX-License-Identifier: Apache-2.0 */
/* A policy with two pools for tests, and short names for its events. Every function checks the policy's
 * invariants; `take` and `expect_*` fail the test. Time stands still unless a test moves `world.now_ns`. */
#pragma once

#include <stdint.h>

#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/report/listing.h"
#include "daemon/policy/report/stats.h"
#include "gpumem.h"
#include "tests/suite.h"

#define WORLD_N_SLOTS   100
#define WORLD_N_CLIENTS 32

struct world {
        struct policy *policy;
        uint64_t now_ns;
        unsigned n_clients;
        struct {
                struct client *client;
                _Atomic uint64_t words[WORLD_N_SLOTS];
        } boards[WORLD_N_CLIENTS];
};

/* The world of the running test. */
extern struct world world;

/* Pool 0: device memory of max_bytes. Pool 1: pinned memory of 64 MiB. */
void world_begin(uint64_t max_bytes);
void world_end(void);

/* A test in a world of its own; further arguments are for TEST. */
#define POLICY_TEST(name, max_bytes, ...)   \
        static void name##_in_world(int i); \
        TEST(name, __VA_ARGS__)             \
        {                                   \
                world_begin(max_bytes);     \
                name##_in_world(_i);        \
                world_end();                \
        }                                   \
        static void name##_in_world(__attribute__((unused)) int _i)

struct client *join(uint32_t uid);

/* Without a board, and in a container of that owner: any number may join. What root runs (0) is an owner of its own. */
struct client *join_in(uint32_t owner_uid, uint32_t uid, unsigned container);

/* The word of a slot on the client's board. */
_Atomic uint64_t *word_of(const struct client *client, uint32_t slot);

/* The client marks the lease as idle. */
void mark_idle(const struct client *client, const struct lease *lease);
bool was_revoked(const struct client *client, const struct lease *lease);

/* Asks pool 0 for n_bytes without properties. */
void ask(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns);
void ask_with(struct client *client, const struct policy_ask *request);

/* Asks; no action follows yet. */
void expect_wait(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns);

/* Asks; a block must be created. */
void expect_new(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns);

/* Asks; this block must be granted. */
void expect_served(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns,
                   const struct block *block);

/* Asks; the request must be refused with this outcome. */
void expect_refused(struct client *client, uint32_t serial, uint64_t n_bytes, uint64_t deadline_ns,
                    int outcome);

/* The next action except those that ask clients to mark idle leases, which most tests ignore. */
struct action next_action(void);

/* The next action, which must be of this kind. */
struct action take(enum action_kind kind);
void expect_idle(void);

/* Withdraws a waiting request; the refusal must follow. */
void expect_cancelled(struct client *client, uint32_t serial);

/* The next action must refuse this request with this outcome. */
void expect_refusal(const struct client *client, uint32_t serial, int outcome);

/* The next action must create a block for it; returns the block. */
struct block *expect_create(const struct client *client, uint32_t serial);

/* The next action must grant it; returns the lease. */
struct lease *expect_grant(const struct client *client, uint32_t serial);

/* The next action must create a block, which is then created, and the request granted. */
struct lease *expect_made(const struct client *client, uint32_t serial);

/* The next action must tell the client to unmap this revoked lease. */
void expect_notice(const struct client *client, const struct lease *lease);

/* The next action must release this block, which is then released. */
void expect_release(const struct block *block);

/* Advances the time and tells the policy. */
void later(uint64_t n_ns);

void created(struct block *block, int result);
void released(struct block *block);
void give_back(struct client *client, const struct lease *lease, enum return_kind kind);
void unmap(struct client *client, uint64_t id);

/* Sets a limit of a client or a tenant, of this uid or POLICY_EVERY_UID. */
void set_limit(enum limit_scope scope, uint32_t uid, enum limit_kind kind, uint64_t max);

/* A granted lease on a new block, with the block. */
struct held {
        struct lease *lease;
        struct block *block;
        uint64_t id;
};

struct held hold(struct client *client, uint64_t n_bytes);
struct held hold_idle(struct client *client, uint64_t n_bytes);
struct held hold_with(struct client *client, const struct policy_ask *request);
struct held hold_shareable(struct client *client, uint64_t n_bytes);

/* The next actions must release the block of this revoked lease and tell the client to unmap it. */
void expect_taken(const struct client *client, const struct held *held);

/* A new cached block of the client's tenant, mapped by the client or by no client. */
struct held cache(struct client *client, uint64_t n_bytes, enum return_kind kind);

/* The same for several blocks at once: none is reused for the next. */
void cache_several(struct client *client, uint64_t n_bytes, unsigned n, struct held *ret_held);

struct pool_stats stats(void);

/* All blocks, and which leases are idle. */
void list_blocks(void (*take_block)(const struct block_listing *block, void *argument),
                 void *argument);
void see_idle(void);
void expect_totals(uint64_t leased, uint64_t cached, uint64_t lingering);
