/* SPDX-License-Identifier: Apache-2.0 */
/* Pressure: clients that hold memory that a request lacks are told before the request waits or is refused, and may
 * free some. */
#pragma once

#include <stdint.h>

#include "daemon/policy/state/types.h"

/* Clients that are told for one request. */
#define PRESSURE_CLIENTS 16

/* Of them at a time, since to tell one takes as long as a few requests; and clients that are looked at for that. */
#define PRESSURE_A_TIME 4
#define PRESSURE_LOOKS  64

/* How often a client is told about a pool. */
#define PRESSURE_NS UINT64_C(100000000)

/* The request is served neither from room, nor from the cache, nor from idle leases. Tells the clients that hold most,
 * those with most first: of its tenant with LIMIT_OF_TENANT, else of the pool. A request that waits tells the next ones
 * when it is looked at again. The asker is not told: it knows. */
void pressure_tell(struct request *request, enum limit_scope scope, uint64_t now_ns);
