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

/* The client has asked for one of a group: it has the lease, or `r` says why it is refused. The last one is asked
 * without POLICY_ASK.more; then all of them have a leader, which is returned, or are refused. NULL: not yet, or
 * refused. */
struct request *group_add(struct request *request, struct lease *take_lease,
                          const struct policy_ask *ask, int r);

/* The same for one that there was no memory for. */
void group_fail(struct client *client, const struct policy_ask *ask, int r);

/* The request is withdrawn, and with it those that are to be served with it. */
void group_cancel(struct request *request);

/* Finds out how much must be made for the group: what is cached serves the rest of it. Idle leases of the tenant are
 * taken for it, if the group is served then. */
void group_look(struct request *leader, struct scan_budget *budget);

/* There is room for what must be made. The leader ends, or goes on alone. */
void group_serve(struct request *take_leader);
