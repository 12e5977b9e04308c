/* A block: one driver allocation or memfd, from the order to make it until its last byte is back.
 *
 * Owned by its holding (it keeps the tenant alive); the server names it by pointer in between.
 * Leases that may still map it stand in its list, the holder that had it last first: see payer.h
 * for which of them is charged. Every change of state goes through one setter, which keeps the totals of pool and holding. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/bins.h"
#include "daemon/policy/charge.h"
#include "daemon/policy/order_queue.h"
#include "daemon/policy/tenant.h"

struct client;
struct free_all;
struct lease;
struct request;
struct share;

enum block_state {
        BLOCK_NONE,      /* not counted: just begun, or gone */
        BLOCK_CREATING,  /* ordered for a request; counts as leased and is charged */
        BLOCK_STOCKING,  /* ordered, but for no request, or none any more; counts as cached */
        BLOCK_LEASED,    /* in busy leases: one, or more when it is shared; charged to the client of
                          * the oldest */
        BLOCK_CACHED,    /* in no lease; found through its bin */
        BLOCK_RELEASING, /* let go, the worker has not confirmed it; counts as lingering */
        BLOCK_LINGERING, /* let go by the worker, but a client may still map it */
        BLOCK_N_STATES,
};

struct block {
        uint64_t id;
        enum block_state state;
        struct holding *holding;
        struct bin *bin; /* says its size and properties, for life */
        void *backing;   /* the server's; NULL before it is made and after it is let go */
        struct charge charge;
        struct order_node order;   /* CREATE or RELEASE */
        struct request *request;   /* the one it is made for, in CREATING only */
        struct free_all *free_all; /* the one that waits for its release, or NULL */
        uint64_t made_ns;          /* when it was ordered */
        uint64_t since_ns;         /* when its state changed last */
        uint64_t taken_from; /* number of the client that it was last taken from for another */
        uint64_t taken_ns;   /* when */
        uint64_t let_go_ns;  /* when it was let go, if it was */
        bool is_expected;    /* these three of a block that is let go: see overdue.h */
        bool is_overdue;
        struct client *late; /* who is late with it, or NULL */
        uint64_t cached_at;  /* in CACHED: number of that caching in its pool */
        TAILQ_HEAD(block_leases, lease) leases;
        uint32_t n_leases;    /* these */
        uint32_t n_busy;      /* of these leases */
        uint32_t n_passed_on; /* how often its charge was, from one client to another */
        uint32_t n_shares;    /* tokens by which it may be attached, in LEASED only */
        LIST_HEAD(block_shares, share) shares;
        LIST_ENTRY(block) pool_link;
        LIST_ENTRY(block) free_all_link;
        TAILQ_ENTRY(block) charged_link; /* in CACHED, and while somebody is charged */
        bool in_charged;
        TAILQ_ENTRY(block) bin_link; /* these three in CACHED, and in LEASED if it may be idle */
        TAILQ_ENTRY(block) holding_link;
        TAILQ_ENTRY(block) pool_age_link; /* and while it is expected */
        bool seen_idle; /* when policy_see_idle looked last; false unless it may be idle */
        bool spoiled;   /* never to be cached */
        bool stuck;     /* let go, and the driver would not take it */
};

/* A block in CREATING, charged to the request's client, with its order given. -ENOMEM. */
int block_create(struct request *request, struct block **ret_block);

/* Before the worker has made it, or when it could not: the block was never there. */
struct block *block_uncreate(struct block *block);

/* For nobody: to be made for the cache of a tenant that is none. -ENOMEM. */
int block_make_ahead(struct holding *holding, uint64_t n_bytes);

/* One that is nobody's becomes another tenant's, cached as it is. -ENOMEM. */
int block_change_holding(struct block *block, struct holding *holding);

/* The request is withdrawn while the worker makes the block: it is made for the tenant's cache. */
void block_stock(struct block *block);

/* It becomes `lease`'s, out of CREATING or CACHED. */
void block_lease(struct block *block, struct lease *lease);

/* It becomes `lease`'s too; in LEASED. */
void block_attach(struct block *block, struct lease *lease);

/* A lease on it is not busy any more; it still stands in the block's list. */
void block_end_use(struct block *block);

/* A busy lease has ended and others go on: the oldest of them is charged. */
void block_pass_on(struct block *block);

/* Nobody leases it any more, or it was made for nobody: it is cached if it may be. */
void block_give_up(struct block *block);

/* Its bytes go back to the driver; from LEASED, STOCKING (once made) or CACHED. */
void block_let_go(struct block *block);

/* The worker could not let go of it, and tries again: its bytes are no longer as good as back. */
void block_set_stuck(struct block *block);

/* The worker has let go of it. Frees it if nobody maps it. */
void block_released(struct block *block);

/* A lease that ends stood for a mapping. Frees the block if it lingered for that one only. */
void block_unmapped(struct block *block, struct lease *lease);

/* It was let go, is mapped, and nobody counts on it any more; see overdue.h. */
void block_set_overdue(struct block *block);

/* In LEASED, to one client whose word may say that the lease is idle. */
bool block_may_be_idle(const struct block *block);

bool block_is_mapped(const struct block *block);

/* Some client maps it, and will not unmap it when asked to. */
bool block_is_kept(const struct block *block);
struct pool *block_its_pool(const struct block *block);

/* For a policy that ends: its pool goes with it, and no total is kept. */
struct block *block_discard(struct block *block);

/* Adds what the block counts as in its present state. */
void block_count(const struct block *block, struct totals *totals);
