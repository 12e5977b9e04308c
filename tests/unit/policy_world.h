/* SPDX-License-Identifier: Apache-2.0 */
/* A policy with two pools for tests, and short words for what tests do to it. Every word checks the
 * policy's invariants; `take` and `expect_*` fail the test. Time stands still unless a test moves
 * `now_ns`. */
#pragma once

#include <stdint.h>

#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/policy.h"
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

/* Pool 0: device memory, max_bytes. Pool 1: pinned memory, 64 MiB. */
struct world world_new(uint64_t max_bytes);
void world_free(struct world *world);

struct client *join(struct world *world, uint32_t uid);

/* The word of a slot on the client's board. */
_Atomic uint64_t *word_of(struct world *world, const struct client *client, uint32_t slot);

/* The client does not use the lease's block, and says so. */
void mark_idle(struct world *world, const struct client *client, const struct lease *lease);
bool was_revoked(struct world *world, const struct client *client, const struct lease *lease);

/* Asks pool 0 for n_bytes without properties. */
void ask(struct world *world, struct client *client, uint32_t serial, uint64_t n_bytes,
         uint64_t deadline_ns);
void ask_with(struct world *world, struct client *client, const struct policy_ask *request);

/* The next action but those to mark what is idle: nothing comes of them, and most tests are not about it. */
struct action next_action(struct world *world);

/* The same, which must be of this kind. */
struct action take(struct world *world, enum action_kind kind);
void expect_idle(struct world *world);

/* The next action must refuse this request so. */
void expect_refusal(struct world *world, const struct client *client, uint32_t serial, int outcome);

/* The next action must grant it; returns the lease. */
struct lease *expect_grant(struct world *world, const struct client *client, uint32_t serial);

/* The next action must tell the client to unmap this revoked lease. */
void expect_notice(struct world *world, const struct client *client, const struct lease *lease);

/* The next action must release this block, which then happens. */
void expect_release(struct world *world, const struct block *block);

void created(struct world *world, struct block *block, int result);
void released(struct world *world, struct block *block);
void give_back(struct world *world, struct client *client, const struct lease *lease,
               enum return_kind kind);
void unmap(struct world *world, struct client *client, uint64_t id);

/* A granted lease on a new block, and its block. */
struct held {
        struct lease *lease;
        struct block *block;
        uint64_t id;
};

struct held hold(struct world *world, struct client *client, uint64_t n_bytes);

/* A new block of the client's tenant that is cached now, mapped by the client or by nobody. */
struct held cache(struct world *world, struct client *client, uint64_t n_bytes,
                  enum return_kind kind);

/* The same for several, from its cache in one go: no block is reused for the next. */
void cache_several(struct world *world, struct client *client, uint64_t n_bytes, unsigned n,
                   struct held *ret_held);

struct pool_stats stats(const struct world *world);
void expect_totals(const struct world *world, uint64_t leased, uint64_t cached, uint64_t lingering);
