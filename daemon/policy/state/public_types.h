/* SPDX-License-Identifier: Apache-2.0 */
/* The interface types of the policy: the server's events and the policy's actions. The objects are defined
 * in types.h, which the server does not include. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/limits.h"

#define POLICY_ALL_POOLS UINT32_MAX

/* Properties. A block with one of POLICY_FRESH is made for its request. It is never idle, and never cached: several
 * clients may map it, or a network adapter may still reach it when its client has returned it. */
#define POLICY_SHAREABLE  (UINT32_C(1) << 0)
#define POLICY_RDMA       (UINT32_C(1) << 1) /* made such that network adapters can reach it */
#define POLICY_REGISTERED (UINT32_C(1) << 3) /* its client gives it to others than the driver */
#define POLICY_FRESH      (POLICY_SHAREABLE | POLICY_RDMA | POLICY_REGISTERED)

struct policy;

/* A connection: its tenant, its leases, its charges. */
struct client;

/* One client's right to one block. */
struct lease;

/* One driver allocation or memfd. */
struct block;

/* A tenant: processes that trust each other. It is a user in a realm; a realm is a container, or another
 * text that tells a user's tenants apart; "" for none. Compared as bytes. */
#define POLICY_REALM_MAX 252
#define POLICY_NO_UID    UINT32_MAX
struct tenant_key {
        uint32_t uid;
        char realm[POLICY_REALM_MAX];
};

enum policy_kind { POLICY_DEVICE = 1, POLICY_PINNED = 2 };

/* A pool's settings. */
struct policy_pool {
        enum policy_kind kind;
        uint64_t max_bytes; /* the most that the pool may reserve */
        uint64_t min_bytes; /* of its leases no tenant loses to others, even if they are idle */
        uint64_t
                capacity_bytes; /* no client can hold more there, including an earlier daemon's blocks */
};

/* For a pool's return_after_ns: cached blocks stay until others need the room. */
#define POLICY_KEEP_FOR_EVER UINT64_MAX

/* The state of a pool's driver; see driver_state.h. */
enum driver_status {
        DRIVER_SERVES,
        DRIVER_STALLED, /* requests that need the driver are not served, the cache is */
        DRIVER_LOST,    /* nothing is served, and no existing block is served again */
};

/* Whose blocks are meant: those of the client's tenant, or of all tenants. */
enum policy_scope { SCOPE_TENANT = 1, SCOPE_NODE = 2 };

/* A client's request for one block. */
struct policy_ask {
        uint32_t pool;
        uint32_t serial;  /* names the request in actions and in cancel; unique in its client */
        uint64_t n_bytes; /* a multiple of 2 MiB */
        uint64_t n_most_bytes;  /* largest cached block; 0, or more: 12.5 % larger */
        uint64_t n_least_bytes; /* smallest block that will do; 0, or more: n_bytes */
        bool known_will_do;     /* a block that the client still maps is preferred to all others */
        bool only_known;        /* no other block will do: nothing is created or waited for */
        bool only_cached;       /* no block is made for it, and it does not wait */
        bool keeps_mapped;    /* the client will not unmap it when asked to, so it is not asked. It
                            * stays charged until it is unmapped or leased again */
        uint32_t properties;  /* fixed at creation; a cached block is found by them */
        uint64_t deadline_ns; /* now or earlier: the request does not wait */
        bool more;            /* served together with the client's next request, or neither is */
};

/* Identifies a shared block to clients that attach it. The server draws the bits. */
#define POLICY_TOKEN_BYTES 16
struct policy_token {
        uint8_t bytes[POLICY_TOKEN_BYTES];
};

/* The terms for attaching a block. */
struct policy_share {
        struct policy_token token;
        uint64_t n_bytes; /* of the allocation in the block, told to attaching clients */
        uint32_t
                granted_uid; /* whose tenants may attach besides the block's own, or POLICY_NO_UID */
        uint64_t keep_ns;    /* how long the block stays after its sharer's lease; 0: not at all */
};

/* What the server must do next. */
enum action_kind {
        ACTION_NONE,
        ACTION_CREATE,   /* create `block` on its pool's worker, then policy_created() */
        ACTION_RELEASE,  /* release `block`'s backing on the worker, then policy_released() */
        ACTION_GRANT,    /* answer `client`'s request `serial`: `lease` on `block` */
        ACTION_REFUSE,   /* answer it with `outcome`, a GPUMEM_E_* or a negative errno */
        ACTION_FREED,    /* answer its release_all: n_bytes and n_blocks went back to the driver */
        ACTION_NOTICE,   /* tell `client` to unmap the block of `lease`, which was revoked */
        ACTION_MARK,     /* ask `client` to mark its unused leases idle now */
        ACTION_PRESSURE, /* tell `client`, which holds memory of `pool`, that others lack some */
};

struct action {
        enum action_kind kind;
        struct client *client; /* that made the request `serial`; NULL in RELEASE */
        uint32_t pool;         /* of the block; else as requested, and may not exist */
        uint32_t serial;
        struct block *block;
        struct lease *lease;
        /* RELEASE: of the client for whose request the block goes back, or the node's; 0: for none. */
        uint64_t line;
        bool known; /* GRANT, if `known_will_do`: the client still maps the block, from an ended lease */
        bool only_known;  /* REFUSE: no other block would have done */
        bool only_cached; /* REFUSE: a block that had to be made would have done */
        int outcome;
        uint64_t n_bytes; /* FREED; in REFUSE the requested size */
        uint64_t n_blocks;
        bool of_others; /* FREED: also other tenants' blocks */
        bool of_blocks; /* REFUSE with GPUMEM_E_TOO_MANY: too many blocks, not too many requests */
        bool of_deadlock;       /* REFUSE: all clients that hold the pool's memory wait for more */
        bool of_part;           /* REFUSE: a refusal of the group's last request follows */
        struct limit_hit limit; /* for a refusal with GPUMEM_E_LIMIT */
};

/* Callbacks for events without an action: an idle lease was revoked, or a client is unresponsive with so
 * many bytes that it was asked to unmap. They run inside the policy, so they may only call functions that
 * read a client. */
struct policy_witness {
        void (*revoked)(void *argument, const struct client *client, uint32_t pool,
                        uint64_t n_bytes);
        void (*unresponsive)(void *argument, const struct client *client, uint32_t pool,
                             uint64_t n_bytes);
        void *argument;
};
