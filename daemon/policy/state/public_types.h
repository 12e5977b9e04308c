/* SPDX-License-Identifier: Apache-2.0 */
/* What crosses the door of the policy: what the server says to it, and the actions that it takes from it. What
 * the objects behind the door are made of is in types.h, which the server does not see. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/limits.h"

#define POLICY_ALL_POOLS UINT32_MAX

/* A property: the block may be mapped by several clients, so it is never cached. */
#define POLICY_SHAREABLE (UINT32_C(1) << 0)

struct policy;

/* One connection: its tenant, its leases, what it is charged. */
struct client;

/* One client's right to one block. */
struct lease;

/* One driver allocation or memfd. */
struct block;

/* Who trusts whom: a tenant is a user in a realm, which is a container or what else users are told
 * apart by; "" for none. All bytes of it are compared. */
#define POLICY_REALM_MAX 252
#define POLICY_NO_UID    UINT32_MAX
struct tenant_key {
        uint32_t uid;
        char realm[POLICY_REALM_MAX];
};

enum policy_kind { POLICY_DEVICE = 1, POLICY_PINNED = 2 };

/* A pool as the configuration says. */
struct policy_pool {
        enum policy_kind kind;
        uint64_t max_bytes; /* nothing is made that would take reserved beyond it */
        uint64_t min_bytes; /* so much of its leases no tenant loses to others, idle as they are */
        uint64_t
                capacity_bytes; /* nobody can have more there, whichever daemon it was that gave it */
};

/* Of a pool's return_after_ns: what is cached stays until others want the room. */
#define POLICY_KEEP_FOR_EVER UINT64_MAX

/* What is known of a pool's driver; see driver_state.h. */
enum driver_status {
        DRIVER_SERVES,
        DRIVER_STALLED, /* nothing that needs the driver: the cache is served */
        DRIVER_LOST,    /* nothing is served, and nothing that there was is served again */
};

/* Whose blocks are meant: the client's tenant's, or everybody's. */
enum policy_scope { SCOPE_TENANT = 1, SCOPE_NODE = 2 };

/* What a client asks for: one block. */
struct policy_ask {
        uint32_t pool;
        uint32_t serial;  /* names the request in actions and in cancel; unique in its client */
        uint64_t n_bytes; /* a multiple of 2 MiB */
        uint64_t n_most_bytes;  /* a cached block may be so large; 0, or more: 12.5 % larger */
        uint64_t n_least_bytes; /* if there is none, one so small will do; 0, or more: n_bytes */
        bool known_will_do;     /* a block that the client maps still goes before all others */
        bool only_known;        /* and no other will do: nothing is made or waited for */
        bool keeps_mapped;      /* nobody is asked to unmap it to make room: it would be in vain. So
                                 * it is charged until it is unmapped, or somebody leases it */
        uint32_t properties;    /* fixed at creation, part of what a cached block is found by */
        uint64_t deadline_ns;   /* now or earlier: do not wait for others */
        bool more; /* it is served together with what the client asks for next, or neither is */
};

/* What names a shared block to those who may attach it. The server draws the bits. */
#define POLICY_TOKEN_BYTES 16
struct policy_token {
        uint8_t bytes[POLICY_TOKEN_BYTES];
};

/* The terms on which others may attach a block. */
struct policy_share {
        struct policy_token token;
        uint64_t n_bytes; /* of the allocation in the block, told to those who attach */
        uint32_t
                granted_uid; /* whose tenant may attach besides the block's own; or POLICY_NO_UID */
        uint64_t keep_ns;    /* for so long the block stays, beyond its sharer's lease; 0: not */
};

/* What the server is to do next. */
enum action_kind {
        ACTION_NONE,
        ACTION_CREATE,  /* make `block` on its pool's worker, then policy_created() */
        ACTION_RELEASE, /* release `block`'s backing on the worker, then policy_released() */
        ACTION_GRANT,   /* answer `client`'s request `serial`: `lease` on `block` */
        ACTION_REFUSE,  /* answer it with `outcome`, a GPUMEM_E_* or a negative errno */
        ACTION_FREED,   /* answer its release_all: n_bytes and n_blocks went back to the driver */
        ACTION_NOTICE,  /* tell `client` to unmap the block of `lease`, which was revoked */
        ACTION_MARK,    /* ask `client` to mark idle now what it does not use */
};

struct action {
        enum action_kind kind;
        struct client *client; /* whose request it is, with `serial`; NULL in RELEASE */
        uint32_t pool;         /* the block's; else as it was asked for, which may not exist */
        uint32_t serial;
        struct block *block;
        struct lease *lease;
        bool known; /* GRANT, where it will do: the client maps the block, for a lease that is over */
        bool only_known; /* REFUSE: no other block would have done */
        int outcome;
        uint64_t n_bytes; /* FREED; in REFUSE what was asked for */
        uint64_t n_blocks;
        bool of_others; /* FREED: not of the client's tenant only */
        bool of_blocks; /* REFUSE with GPUMEM_E_TOO_MANY: not of requests that wait, but of blocks */
        bool of_deadlock; /* REFUSE: all who hold the pool's memory wait for more of it */
        bool of_part; /* REFUSE: another refusal follows, of those that were to be served with it */
        struct limit_hit limit; /* of a refusal with GPUMEM_E_LIMIT */
};

/* Told of what nobody asked for and no action says: an idle lease was taken back from the client, or it is unresponsive
 * with so much, which it was asked to unmap. The policy is at work then: nothing of it may be called but what
 * reads a client. */
struct policy_witness {
        void (*revoked)(void *argument, const struct client *client, uint32_t pool,
                        uint64_t n_bytes);
        void (*unresponsive)(void *argument, const struct client *client, uint32_t pool,
                             uint64_t n_bytes);
        void *argument;
};
