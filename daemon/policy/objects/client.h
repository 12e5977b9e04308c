/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: what it asked for, what it leases, what it is charged.
 *
 * Owned by the policy until both signs of its end have come. From the first one on it is dropped:
 * it holds nothing for use, but what it may still map is charged to it. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

#define CLIENT_MAX_WAITING 64

/* -EINVAL for no slots at all, -ENOMEM. */
int client_new(struct policy *policy, const struct tenant_key *key, uint32_t n_slots, void *owner,
               struct client **ret_client);

/* Frees what it has asked for, and releases what it leases. */
void client_drop(struct client *client);

/* After client_drop: its mappings are gone, and so is the client. */
struct client *client_free(struct client *client);

/* Others are about to make memory that it may not need: it is asked to mark its idle leases, unless it
 * was a moment ago. */
#define CLIENT_MARK_NS UINT64_C(100000)
void client_ask_to_mark(struct client *client, uint64_t now_ns);

/* See policy_declare. */
int client_declare(struct client *client, struct pool *pool, uint64_t n_bytes);

/* Answers a request that there is no memory for. The server takes this before the next one. */
void client_refuse_spare(struct client *client, const struct policy_ask *ask, int outcome);
