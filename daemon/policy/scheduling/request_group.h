/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of one client that are served together, or not at all.
 *
 * The client asks for one after the other. The last request leads: it stands in the queue for all, and asks for their
 * sum. Until there is room for the sum none of them is served, so a waiting group holds nothing that others wait for.
 * Then each request goes on alone, with a cached block or a new one. Only blocks of exactly a part's size serve that
 * part. A part that the driver has no memory for is refused then, since the other parts hold theirs; the client gives
 * those back. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

struct scan_budget;

/* Adds a request of a group: it has its lease, or `r` tells why it is refused. The last one has no
 * POLICY_ASK.more. All then have a leader, which is returned, or are refused. NULL: the group is
 * incomplete, or refused. */
struct request *request_group_add(struct request *request, struct lease *take_lease,
                                  const struct policy_ask *ask, int r);

/* The same for a request for which there was no memory. */
void request_group_fail(struct client *client, const struct policy_ask *ask, int r);

/* Withdraws the request, and with it its group. */
void request_group_cancel(struct request *request);

/* Computes how much must be created for the group when cached blocks serve the rest. The tenant's idle
 * leases are revoked for it, if the group is served then. */
void request_group_look(struct request *leader, struct scan_budget *budget);

/* There is room for what must be created. The leader ends, or goes on alone. */
void request_group_serve(struct request *take_leader);
