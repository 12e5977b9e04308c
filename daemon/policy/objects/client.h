/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: its requests, its leases and its charges.
 *
 * Owned by the policy until both signs of its end have come. From the first one on it is dropped: it holds
 * nothing for use, but blocks that it may still map are charged to it. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

#define CLIENT_MAX_WAITING 64

/* -EINVAL: no slots; -ENOMEM. */
int client_new(struct policy *policy, const struct tenant_key *key,
               const struct tenant_key *owner_key, uint32_t n_slots, void *owner,
               struct client **ret_client);

/* After all leases are dropped: its mappings are gone. Frees the client. */
struct client *client_free(struct client *client);

/* Others are about to create memory although this client may hold unused memory: asks it to mark its idle
 * leases, unless it was asked a moment ago. */
#define CLIENT_MARK_NS UINT64_C(100000)
void client_ask_to_mark(struct client *client, uint64_t now_ns);

/* See policy_declare. */
int client_declare(struct client *client, struct pool *pool, uint64_t n_bytes);

/* Refuses a request for which there is no memory. The server takes this action before the client's next
 * request. */
void client_refuse_spare(struct client *client, const struct policy_ask *ask, int outcome);
