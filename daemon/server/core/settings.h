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

/* "fd" or "legacy"; -EINVAL for anything else. */
int device_ipc_parse(const char *text, enum device_ipc *ret_ipc);

/* "container", "uid" or "client"; -EINVAL for anything else. */
int tenancy_parse(const char *text, enum tenancy *ret_tenancy);

/* "memfd" or "vmm"; -EINVAL for anything else. */
int pinned_backing_parse(const char *text, enum pinned_backing *ret_backing);
