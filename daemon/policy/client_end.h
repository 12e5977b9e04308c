/* SPDX-License-Identifier: Apache-2.0 */
/* What a client leaves when it ends: its connection or its process is over.
 *
 * The first sign of the end drops all that the client has for use: requests, leases, and what it asked for. The blocks of
 * its leases are released, cached, or charged to others that lease them; a share may be kept for late attachers (kept_shares.h).
 * The process may still map the blocks, so they are charged to it until the second sign; then its mappings are gone.
 * Both take a part at a time. */
#pragma once

#include <stdbool.h>

#include "daemon/policy/state/types.h"

/* At the first sign: frees the client's requests, and drops so many of its leases. Where others lease a block, too, its
 * lease counts as several. Returns whether leases are left. Also legal if all are dropped. */
bool client_end_drop(struct client *client, unsigned n_most);

/* At the second sign: so many of the dropped leases are not mapped any more. Returns whether others are left. */
bool client_end_unmap(struct client *client, unsigned n_most);
