/* SPDX-License-Identifier: Apache-2.0 */
/* Leases a second of some processes of one user, beside the same messages to a bare server. */
#pragma once

/* Runs both by turns; false: a process had an error. The server needs no daemon. */
#define RATES_MEMBERS_MAX 256
struct rates {
        double leases, echoes; /* a second, of all members together */
};
int rates_measure(unsigned n_members, double seconds, unsigned n_turns, struct rates *ret_rates);
