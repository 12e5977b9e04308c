/* SPDX-License-Identifier: Apache-2.0 */
/* Leases a second of some processes of one user, beside those that a bare server gives (bench/echo.h). In both cases
 * the same processes exchange the same messages: LEASE, LEASED with a fd, RETURN. */
#pragma once

#include <sys/types.h>

#define RATES_MEMBERS_MAX 256

/* Medians of the turns. */
struct rates {
        double leases, echoes;     /* a second, of all members together */
        double lease_us, echo_us;  /* of the server's CPU time, all its threads, for each */
        double ratio, least, most; /* leases over echoes, of each turn */
};

/* Runs both by turns, for so long together. Not 0: a process had an error. */
int rates_measure(pid_t daemon, unsigned n_members, double seconds, unsigned n_turns,
                  struct rates *ret_rates);
