/* SPDX-License-Identifier: Apache-2.0 */
/* Draining: the daemon waits before it ends until clients have returned their memory. Nothing is leased any
 * more, and unused memory goes back to the driver.
 *
 * How long this takes is a state machine of its own, driven by signals, time and the bytes held. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

/* An upper limit for an administrator's setting. */
#define DRAIN_SECONDS_MAX 3600

enum drain_state {
        DRAIN_NONE, /* no signal yet */
        DRAIN_WAITS,
        DRAIN_OVER, /* nothing is held, the time is over, or a second signal came */
};

struct drain {
        enum drain_state state;
        uint64_t deadline_ns;
};

/* Handles a signal: the first one starts a wait of at most so many seconds, the second one ends it. */
void drain_signal(struct drain *drain, uint64_t n_seconds, uint64_t now_ns);

/* Tells how much is held at present. */
void drain_see(struct drain *drain, uint64_t n_held_bytes, uint64_t now_ns);

/* Whole seconds that are left, rounded up; 0: there is no wait. */
uint64_t drain_seconds_left(const struct drain *drain, uint64_t now_ns);

/* From now on nothing is leased: new and waiting requests are refused with GPUMEM_E_SHUTTING_DOWN. Cached
 * blocks go back to the driver, and clients are asked to mark their idle leases. */
void policy_drain(struct policy *policy, uint64_t now_ns);
bool policy_is_draining(const struct policy *policy);

/* Scans at most so many leases of each pool, different ones each time. Idle leases are revoked, and their
 * blocks go back to the driver. */
void policy_drain_idle(struct policy *policy, unsigned n_scans);

/* Bytes that clients are charged, over all pools. */
uint64_t policy_held_bytes(const struct policy *policy);
