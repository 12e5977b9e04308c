/* SPDX-License-Identifier: Apache-2.0 */
/* What an administrator has decided: how much each pool may reserve, and what clients and tenants may be charged. Made
 * from the configuration and the command line; the server takes one when it starts and perhaps others later. One
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/policy/policy.h"
#include "proto/proto.h"

/* Smaller than one block a pool is of no use. */
#define SETTINGS_POOL_BYTES_MIN (UINT64_C(2) << 20)

#define SETTINGS_RETURN_SECONDS_MAX 31536000

enum pool_selector {
        POOL_OF_EACH_DEVICE,
        POOL_OF_EACH_NODE,
        POOL_OF_DEVICE, /* by index; these three go before the two above */
        POOL_OF_UUID,
        POOL_OF_NODE,
};

enum pinned_backing {
        PINNED_NOT_SAID, /* memfds, then */
        PINNED_MEMFD,    /* shared memory that clients register with the driver */
        PINNED_VMM,      /* exportable memory of the driver, for clients that all use CUDA */
};

enum device_ipc {
        IPC_NOT_SAID, /* fds, then */
        IPC_FD,
        IPC_LEGACY, /* CUDA IPC handles: for one user only */
};

/* Whom a tenant is made of. */
enum tenancy {
        TENANCY_OF_CONTAINERS, /* a user's processes in one container, or outside of all; if nothing is said */
        TENANCY_OF_USERS,
        TENANCY_OF_CLIENTS, /* a connection */
};

struct pool_rule {
        enum pool_selector selector;
        uint32_t number; /* of the device, or of the NUMA node */
        uint8_t uuid[16];
        uint64_t max_bytes; /* 0: not said */
        uint64_t min_bytes; /* that each tenant keeps */
        bool says_min;
        uint64_t warm_bytes; /* that are made ahead */
        bool says_warm;
        uint64_t keep_bytes; /* of what is cached */
        bool says_keep;
        uint64_t return_seconds; /* after which what is cached beyond that goes back */
        bool says_return;
        double max_fraction; /* of the memory that there is; 0: not said */
        enum pinned_backing backing;
        enum device_ipc ipc;
};

/* What each user may have, besides its share of what all have. */
struct user_rule {
        uint64_t n_connections;
        uint64_t n_requests_a_second;
};

struct settings {
        uint64_t n_device_bytes; /* from the command line: goes before the rules; 0: not said */
        uint64_t n_pinned_bytes;
        enum pinned_backing pinned_backing; /* the same */
        struct pool_rule *rules;            /* owned */
        size_t n_rules;
        struct limits *limits; /* owned; NULL: none */
        enum tenancy tenancy;
        bool says_user;
        uint32_t user; /* the only one who leases memory */
        struct user_rule each_user;
        uint64_t n_drain_seconds; /* that an end waits for what is held */
};

#define SETTINGS_USERS                                               \
        {                                                            \
                .n_connections = 1024, .n_requests_a_second = 10000, \
        }

#define SETTINGS_NULL ((struct settings){.each_user = SETTINGS_USERS})

void settings_deinit(struct settings *settings);

/* The most that a pool may reserve, of which all but n_max_bytes is known: what the rule that names it says, else the
 * rule for its kind, else all of a device and a quarter of a node. Never more than there is. */
uint64_t settings_pool_max(const struct settings *settings, const struct pool_row *row);

/* What no tenant loses of its leases in the pool to others: what the rule that names it says, else the rule for its
 * kind, else 0. */
uint64_t settings_pool_min(const struct settings *settings, const struct pool_row *row);

/* What a pool has ready before anybody asks, and keeps of what is cached, each as the rule says that names it, else the
 * rule for its kind. Where one of the latter two is not said, and the other is: as much is kept as is made ahead, and
 * what is more goes back at once. Where neither is, it stays: POLICY_KEEP_FOR_EVER. */
struct pool_stock {
        uint64_t warm_bytes;
        uint64_t keep_bytes;
        uint64_t return_after_ns;
};

struct pool_stock settings_pool_stock(const struct settings *settings, const struct pool_row *row);

/* What a pinned pool's blocks are made of: what the rule that names it says, else the rule for each node. Never
 * PINNED_NOT_SAID. */
enum pinned_backing settings_pinned_backing(const struct settings *settings,
                                            const struct pool_row *row);

/* How a device's blocks are handed out: what the rule that names it says, else the rule for each device. Never
 * IPC_NOT_SAID. */
enum device_ipc settings_ipc(const struct settings *settings, const struct pool_row *row);

/* "fd" or "legacy"; -EINVAL for anything else. */
int device_ipc_parse(const char *text, enum device_ipc *ret_ipc);

/* "container", "uid" or "client"; -EINVAL for anything else. */
int tenancy_parse(const char *text, enum tenancy *ret_tenancy);

/* "memfd" or "vmm"; -EINVAL for anything else. */
int pinned_backing_parse(const char *text, enum pinned_backing *ret_backing);

/* The rule speaks of this pool. */
bool settings_rule_names(const struct pool_rule *rule, const struct pool_row *row);
