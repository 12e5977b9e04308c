/* SPDX-License-Identifier: Apache-2.0 */
/* An administrator's settings: how much each pool may reserve, and how much clients and tenants may be
 * charged. Made from the configuration and the command line. The server takes one when it starts, and
 * others at SIGHUP. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/policy/policy.h"
#include "proto/messages.h"

/* A pool smaller than one block is useless. */
#define SETTINGS_POOL_BYTES_MIN (UINT64_C(2) << 20)

#define SETTINGS_RETURN_SECONDS     60
#define SETTINGS_RETURN_SECONDS_MAX 31536000

enum pool_selector {
        POOL_OF_EACH_DEVICE,
        POOL_OF_EACH_NODE,
        POOL_OF_DEVICE, /* by index; device rules by index or UUID take precedence over the kinds above */
        POOL_OF_UUID,
        POOL_OF_NODE,
};

enum pinned_backing {
        PINNED_NOT_SAID, /* memfd applies */
        PINNED_MEMFD,    /* shared memory that clients register with the driver */
        PINNED_VMM,      /* exportable memory of the driver, for clients that all use CUDA */
};

enum device_ipc {
        IPC_NOT_SAID, /* fd applies */
        IPC_FD,
        IPC_LEGACY, /* CUDA IPC handles: for one user only */
};

/* Which clients form one tenant. */
enum tenancy {
        TENANCY_OF_CONTAINERS, /* a user's processes in one container, or outside of all; the default */
        TENANCY_OF_USERS,
        TENANCY_OF_CLIENTS, /* each connection */
};

struct pool_rule {
        enum pool_selector selector;
        uint32_t number; /* of the device, or of the NUMA node */
        uint8_t uuid[16];
        uint64_t max_bytes;                                          /* 0: not set */
        bool says_min, says_warm, says_keep, says_return, says_free; /* these are set: */
        uint64_t min_bytes;                                          /* kept for each tenant */
        uint64_t warm_bytes;                                         /* prewarmed */
        uint64_t keep_bytes;                                         /* of cached memory */
        uint64_t return_seconds;  /* unused memory beyond keep_bytes goes back within this time */
        uint64_t keep_free_bytes; /* of the device, for programs without gpumemd */
        double max_fraction;      /* of the capacity; 0: not set */
        enum pinned_backing backing;
        enum device_ipc ipc;
};

/* Limits of each user, besides its share of the totals. */
struct user_rule {
        uint64_t n_connections;
};

struct settings {
        uint64_t
                n_device_bytes; /* from the command line, takes precedence over the rules; 0: not set */
        uint64_t n_pinned_bytes;
        enum pinned_backing pinned_backing; /* from the command line */
        struct pool_rule *rules;            /* owned */
        size_t n_rules;
        struct limits *limits; /* owned; NULL: none */
        enum tenancy tenancy;
        bool says_user;
        uint32_t user; /* the only user that leases memory */
        struct user_rule each_user;
        uint64_t n_drain_seconds; /* how long a shutdown waits for held memory */
};

#define SETTINGS_USERS                 \
        {                              \
                .n_connections = 1024, \
        }

#define SETTINGS_NULL ((struct settings){.each_user = SETTINGS_USERS})

void settings_deinit(struct settings *settings);

/* The most that a pool may reserve; all of the row but n_max_bytes must be set. The rule that names the
 * pool applies, else the rule for its kind, else all of a device's memory or a quarter of a node's. Never
 * above the capacity. */
uint64_t settings_pool_max(const struct settings *settings, const struct pool_row *row);

/* Bytes of its leases in the pool that no tenant loses to others. The rule that names the pool applies,
 * else the rule for its kind, else 0. */
uint64_t settings_pool_min(const struct settings *settings, const struct pool_row *row);

/* How much of a pool is prewarmed, how much unused memory stays, how long the rest does, and how much of the device is
 * kept free. For each value the rule that names the pool applies, else the rule for its kind, else 0, warm_bytes,
 * SETTINGS_RETURN_SECONDS and 0. */
struct pool_stock {
        uint64_t warm_bytes;
        uint64_t keep_bytes;
        uint64_t return_after_ns;
        uint64_t keep_free_bytes;
};

struct pool_stock settings_pool_stock(const struct settings *settings, const struct pool_row *row);

/* What a pinned pool's blocks are made of. The rule that names the pool applies, else the rule for all
 * nodes. Never PINNED_NOT_SAID. */
enum pinned_backing settings_pinned_backing(const struct settings *settings,
                                            const struct pool_row *row);

/* How a device's blocks are handed out. The rule that names the device applies, else the rule for all
 * devices. Never IPC_NOT_SAID. */
enum device_ipc settings_ipc(const struct settings *settings, const struct pool_row *row);

/* "fd" or "legacy"; -EINVAL for anything else. */
int device_ipc_parse(const char *text, enum device_ipc *ret_ipc);

/* "container", "uid" or "client"; -EINVAL for anything else. */
int tenancy_parse(const char *text, enum tenancy *ret_tenancy);

/* "memfd" or "vmm"; -EINVAL for anything else. */
int pinned_backing_parse(const char *text, enum pinned_backing *ret_backing);

/* The rule matches this pool. */
bool settings_rule_names(const struct pool_rule *rule, const struct pool_row *row);
