/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is to end, while it waits for what is held to come back: nothing is leased any more, and
 * what nobody uses goes back to the driver.
 *
 * How long that lasts is a state of its own, told of signals, time and what is held. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

/* More than anybody waits for a service to end. */
#define DRAIN_SECONDS_MAX 3600

enum drain_state {
        DRAIN_NONE, /* nobody has asked for an end */
        DRAIN_WAITS,
        DRAIN_OVER, /* nothing is held, or it is time, or it was asked for again */
};

struct drain {
        enum drain_state state;
        uint64_t deadline_ns;
};

/* A signal asks for an end: the first one waits for so many seconds at most, the second one not. */
void drain_signal(struct drain *drain, uint64_t n_seconds, uint64_t now_ns);

/* So much is held at present. */
void drain_see(struct drain *drain, uint64_t n_held_bytes, uint64_t now_ns);

/* Whole seconds that are left, rounded up; 0 where nothing is waited for. */
uint64_t drain_seconds_left(const struct drain *drain, uint64_t now_ns);

/* Nothing is leased from now on: who asks, or waits, is refused with GPUMEM_E_SHUTTING_DOWN. What is cached
 * goes back to the driver, and clients are asked to mark what they do not use. */
void policy_drain(struct policy *policy, uint64_t now_ns);
bool policy_is_draining(const struct policy *policy);

/* Scans so many leases of each pool at most, other ones each time: those that are idle are revoked, and
 * go back to the driver. */
void policy_drain_idle(struct policy *policy, unsigned n_scans);

/* What clients are charged, in all pools together: that is held. */
uint64_t policy_held_bytes(const struct policy *policy);
