/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings say of one pool, and the defaults of what they do not say. One thread. */
#pragma once

#include "daemon/server/core/settings.h"

/* The rule matches this pool. */
bool pool_rule_names(const struct pool_rule *rule, const struct pool_row *row);

/* The most that a pool may reserve; all of the row but n_max_bytes must be set. The rule that names the
 * pool applies, else the rule for its kind, else all of a device's memory or a quarter of a node's. Never
 * above the capacity. */
uint64_t pool_settings_max(const struct settings *settings, const struct pool_row *row);

/* Bytes of its leases in the pool that no tenant loses to others. The rule that names the pool applies,
 * else the rule for its kind, else 0. */
uint64_t pool_settings_min(const struct settings *settings, const struct pool_row *row);

/* How much of a pool is prewarmed, how much unused memory stays, how long the rest does, and how much of the device is
 * kept free. For each value the rule that names the pool applies, else the rule for its kind, else 0, warm_bytes,
 * SETTINGS_RETURN_SECONDS and 0. */
struct pool_stock {
        uint64_t warm_bytes;
        uint64_t keep_bytes;
        uint64_t return_after_ns;
        uint64_t keep_free_bytes;
};

struct pool_stock pool_settings_stock(const struct settings *settings, const struct pool_row *row);

/* What a pinned pool's blocks are made of. The rule that names the pool applies, else the rule for all
 * nodes. Never PINNED_NOT_SAID. */
enum pinned_backing pool_settings_backing(const struct settings *settings,
                                          const struct pool_row *row);

/* How a device's blocks are handed out. The rule that names the device applies, else the rule for all
 * devices. Never IPC_NOT_SAID. */
enum device_ipc pool_settings_ipc(const struct settings *settings, const struct pool_row *row);
