/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the policy is made of, on one page. Read this first.
 *
 * The policy owns pools, clients and tenants. A pool is one device's memory, or one node's pinned memory. A tenant is
 * a user in a container; its processes trust each other. A user owns all tenants in its containers. What one tenant
 * has in one pool is a holding. Blocks belong to holdings: a block is one driver allocation, and its tenant does not
 * change. A client is one connection, and belongs to a tenant. It asks for a block with a request, which waits in the
 * fair queue of its pool. A granted request becomes a lease: the client's right to one block. A block that no client
 * leases is cached for its tenant, and is found again through a bin. A shared block is in several leases; a share is
 * the token by which a client attaches it. A release_all is one call that waits until blocks are back at the driver.
 *
 *      policy -- pool -- queue of holdings that wait; every block of the pool
 *        |------ tenant -- holding, one a pool -- bins -- bin -- block -- share
 *        `------ client -- lease on a block
 *                  |------ request -- lease, and the block that is being made for it
 *                  `------ release_all -- blocks that are not back yet
 *
 * An action tells the server what to do next, and is a member of the object that it is about. A charge is a number of
 * bytes that a client accounts for, and is a member of the block that causes it. Sums over blocks are totals
 * (totals.h), sums over charges are usage (limits.h).
 *
 * Sizes are in bytes. Counts begin with n_. Times end with _ns and are nanoseconds of the server's clock. Each object
 * owns what its own header says; links and nodes stand inside objects, so that moving one needs no memory. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/bitmap.h"
#include "base/numbered.h"
#include "base/size.h"
#include "base/table.h"
#include "daemon/policy/state/limits.h"
#include "daemon/policy/state/public_types.h"
#include "daemon/policy/state/ranking.h"
#include "daemon/policy/state/slot_set.h"
#include "daemon/policy/state/totals.h"

struct bins;
struct release_all;
struct service;
struct holding;
struct action_queue;
struct owner;
struct pool;
struct request;
struct share;
struct tenant;

/* -- Members of the objects -- */

/* A queued action, a member of the object that it is about; see action_queue.h. */
struct action_node {
        enum action_kind kind;
        struct action_queue *queue; /* NULL: not queued */
        TAILQ_ENTRY(action_node) link;
};

/* Actions in the order of queueing. */
struct action_queue {
        TAILQ_HEAD(action_nodes, action_node) nodes;
};

enum charge_kind {
        CHARGE_HELD, /* the client leases it, declares it, or held it when it was released */
        CHARGE_KEPT, /* cached, and the client keeps it mapped */
};

/* Bytes of one block that are charged to a client; see charge.h. */
struct charge {
        struct client *client; /* NULL: no client */
        struct pool *pool;
        uint64_t n_bytes;
        enum charge_kind kind;
};

/* What one client is charged in one pool. It is ranked among the pool's clients, and among its tenant's. */
enum charge_ranking { CHARGE_OF_POOL, CHARGE_OF_TENANT, CHARGE_N_RANKINGS };
struct charge_sum {
        struct client *client;
        struct ranked ranked[CHARGE_N_RANKINGS];
        uint64_t n_unresponsive_bytes; /* part of them, see unmap_timeout.h */
        uint64_t n_attached_bytes;   /* of blocks in its busy leases for which another is charged */
        struct action_node pressure; /* with told_ns: see pressure.h */
        uint64_t told_ns;            /* when the client was last told; 0: never */
};

/* A request of this party waits for a limit; see quota.h. */
struct limited {
        uint64_t walk; /* the walk that saw it last */
        enum limit_kind kind;
};

enum bin_side { BIN_CACHED, BIN_LEASED, BIN_N_SIDES };

/* The blocks of one size and one set of properties; see bins.h. */
struct bin {
        struct bins *bins;
        uint64_t n_bytes;
        uint32_t properties;
        uint32_t n_refs;   /* blocks of this size and these properties */
        uint32_t n_cached; /* of these */
        /* Cached: the latest comes first. Leased: the one leased, or seen in use, the longest ago comes
         * first. */
        TAILQ_HEAD(bin_blocks, block) sides[BIN_N_SIDES];
        struct bin_blocks
                charged; /* of the cached ones, in the same order: those that a client is charged for */
        TAILQ_ENTRY(bin) class_link;
};

/* The bins of one holding, by size. */
struct bins {
        struct bitmap occupied[BIN_N_SIDES];
        uint64_t n_charged; /* blocks in the charged lists of all bins */
        TAILQ_HEAD(bin_class, bin) classes[SIZE_N_CLASSES];
};

/* A walk through a pool's queue, which may rest while other things happen; see waiting_queue.h. */
struct queue_walk {
        uint64_t number; /* 0: none is under way */
        uint64_t last;   /* number of the last request that it meets: later ones came later */
        struct holding *to_sort; /* this one and those behind it have no place yet */
        bool is_sorted;
        struct holding *at; /* the tenant of the request that it met last; NULL: it waits no more */
        struct holding *after;
        struct request *met; /* the last one, until it leaves the queue or the walk rests */
        struct request
                *unfinished;    /* it is met again when the walk goes on; NULL: the next one is */
        uint64_t n_meant_bytes; /* for requests that it has met and that wait for sure bytes, */
        uint64_t n_meant;       /* and their number */
        bool has_lost;          /* one that a deadlock might have been made of has left */
};

/* The holdings whose requests wait for a pool's memory; see waiting_queue.h. */
struct waiting_queue {
        TAILQ_HEAD(waiting_queue_holdings, holding) holdings; /* sorted only during a walk */
        uint64_t n_enqueued;                                  /* requests so far: numbers them */
        uint64_t reached; /* the lowest position of a tenant that begins to wait */
        struct queue_walk walk;
};

#define BACKFILL_HOLD_NS  UINT64_C(1000000000)
#define BACKFILL_ROUND_NS (10 * BACKFILL_HOLD_NS)

/* Holds of owners that have ended since: one that comes again goes on with its round. The latest are kept. */
#define PAST_HOLDS 64
struct past_hold {
        uint64_t owner;    /* its digest */
        uint64_t since_ns; /* 0: none */
};

/* When an owner's requests for a pool last began to hold up others; see backfill.h. */
struct backfill_hold {
        bool was;
        uint64_t since_ns;
        /* Used in a walk, while the hold has not begun. */
        uint64_t listed; /* number of the walk in whose list it is; 0: in none */
        LIST_ENTRY(backfill_hold) link;
        uint64_t n_least_bytes; /* smallest size that one of them waits for */
        unsigned n_allowed;     /* as in struct backfill */
};

/* A refusal as an action: the answer to one request, kept until the server takes it. */
struct refusal {
        struct action_node action;
        struct client *client;
        uint32_t pool; /* as requested: the pool may not exist */
        uint32_t serial;
        int outcome;
        uint64_t n_bytes; /* as requested */
        struct limit_hit hit;
        bool of_blocks;          /* too many blocks */
        bool of_deadlock;        /* all clients that hold the pool's memory wait for more */
        bool of_part;            /* of a group, whose leader is refused for the same reason */
        struct request *request; /* freed when the action is taken; or NULL */
};

/* What goes back first where a device has too little free, see policy_give_back. Late: its client is known not to
 * unmap what it is told to. */
enum giving_stage {
        GIVING_UNMAPPED,
        GIVING_MAPPED,
        GIVING_IDLE,
        GIVING_LATE_MAPPED,
        GIVING_LATE_IDLE,
        GIVING_N_STAGES,
};

struct giving {
        uint64_t n_bytes; /* that are still to go */
        enum giving_stage stage;
        struct block *next; /* cached block where the stage goes on; NULL: at the first */
        uint64_t n_left;    /* leases that the stage has not looked at, at most */
};

/* The keeps that have begun, as a heap: none ends before the one at half its place. See kept_shares.h. */
struct keeps {
        struct share **places;
        uint32_t n;
        uint32_t n_places;
        uint32_t n_all;   /* with those that have not begun: each has a place */
        uint64_t n_begun; /* so far */
};

/* -- The objects -- */

/* The whole policy. Owns pools and clients, and through them everything else. */
struct policy {
        struct action_queue actions;
        struct service *service; /* see scheduling/service.h */
        struct pool **pools;
        uint32_t n_pools;
        struct owner *owners;   /* table by key */
        struct tenant *tenants; /* table by key */
        struct tenant
                *unowned; /* one of them: the tenant of prewarmed blocks; NULL: there is none */
        LIST_HEAD(policy_clients, client) clients;
        struct numbered blocks, tenants_by_number; /* for walks in parts */
        uint64_t n_changes; /* of blocks and clients, so far: see policy_n_changes */
        uint64_t last_client_number;
        uint64_t last_lease_id;
        uint64_t last_block_id;
        uint64_t now_ns;      /* of the last event that had a time */
        struct share *shares; /* table by token */
        struct keeps keeps;
        struct limits *limits;  /* NULL: none */
        uint64_t n_events;      /* that a queue is to be walked for, so far */
        uint64_t line;          /* of the client whose request is met now, or the next one, or 0 */
        uint64_t node_line;     /* see policy_set_node_line */
        unsigned n_looks_left;  /* in the present part of a walk: see walk_part.h */
        uint64_t n_charges;     /* begun, or ended, so far */
        uint64_t n_revocations; /* so far */
        uint64_t n_unawaited;   /* see policy_n_unawaited */
        uint32_t n_waiting;     /* requests in all queues, */
        uint32_t n_first;       /* and tenants that have a first place there: see tenant.h */
        uint64_t n_walks;       /* walks through queues, so far */
        uint64_t n_counts;      /* counts of shared blocks, so far */
        uint64_t n_deadlock_looks; /* so far */
        uint64_t max_blocks;       /* see fd_budget.h */
        uint32_t aging_pool;       /* where policy_age goes on */
        bool wants_fd; /* a request has waited for a fd, or parts for places, since all pools were served */
        bool draining; /* see drain.h */
        bool in_turns; /* see policy_serve_in_turns */
        struct policy_witness witness;
};

/* One pool: its limit, its blocks, and the fair queue of those who wait; see pool.h. */
struct pool {
        struct policy *policy;
        uint32_t id;
        struct policy_pool settings;
        bool closing; /* blocks without a lease are released */
        enum driver_status driver_status;
        uint64_t keep_bytes; /* with the next five: see aging.h */
        uint64_t return_after_ns;
        struct block *return_next; /* cached: where the next scan goes on; NULL: at the first */
        bool cache_grew;           /* more is cached, or less is kept mapped */
        bool returned_all;         /* a whole pass has covered all cached blocks since */
        bool saw_young;            /* and this pass has left some that were not old enough */
        struct block *look_next;   /* the same for blocks in leases */
        struct giving giving;
        bool evicts_to_limit;       /* with the next two: see evict_cached_to_limit */
        enum evict_kind limit_kind; /* that it searches for now */
        uint64_t n_to_revoke;       /* leases that it has not looked at, at most */
        struct totals totals;
        uint64_t unreleasable; /* part of lingering, of no block: see policy_set_unreleasable */
        uint64_t charged;
        struct ranking by_charge;                /* its clients */
        struct ranking by_cached[EVICT_N_KINDS]; /* owners with some of the kind, by `cached` */
        uint64_t n_cachers;                      /* owners that have cached some */
        uint64_t declared;                       /* part of charged */
        uint64_t reserved_peak, leased_peak, cached_peak;
        uint64_t
                unresponsive; /* lingering, of clients that are unresponsive; see unmap_timeout.h */
        uint64_t n_leases;    /* busy; a shared block has several */
        LIST_HEAD(pool_blocks, block) blocks;
        TAILQ_HEAD(pool_blocks_by_age, block) cached; /* of all tenants, in the order of caching */
        struct pool_blocks_by_age leased;             /* of all tenants, sorted like a holding's */
        struct pool_blocks_by_age
                expected;         /* see unmap_timeout.h; the one released first is first */
        uint64_t n_awaited;       /* lingering blocks that a release_all waits for */
        uint64_t seen_idle_bytes; /* of the leased ones, see struct block */
        uint64_t n_searches;      /* searches for other tenants' idle leases, so far */
        uint64_t n_cachings;      /* so far: dates a block's caching */
        uint64_t
                n_passed_by; /* blocks cached until then: a whole walk has met all that waited, since */
        struct past_hold past_holds[PAST_HOLDS];
        uint32_t n_past_holds;      /* so far: the next one's place */
        struct waiting_queue queue; /* the waiting requests */
        uint64_t n_waiting;
        bool unserved;        /* something has happened since the last walk began */
        bool has_unsure;      /* with the next two, as the last walk saw it: a request waits that
                                  * nothing is sure to serve, */
        uint64_t deadline_ns; /* the earliest deadline of these, */
        uint64_t hold_end_ns; /* and when the first tenant ceases to hold up others */
        uint64_t
                n_bypasses; /* blocks created so far, each of which bypassed those that waited before */
        uint64_t stuck_since_ns; /* with stuck_moves: see deadlock.h; 0: no deadlock */
        uint64_t stuck_moves;
        uint64_t n_backs; /* times that bytes came back to the driver, or may have */
        uint64_t n_grants_from_cache;
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_revocations;
        uint64_t n_known_grants;
        uint64_t n_notices;
        uint64_t n_aged; /* blocks; see aging.h */
};

/* One tenant's objects in one pool. */
struct holding {
        struct tenant *tenant;
        struct pool *pool;
        struct totals totals;
        uint64_t charged;                         /* to the tenant's clients */
        struct ranking by_charge;                 /* the tenant's clients */
        struct ranked cached_sums[EVICT_N_KINDS]; /* all that is cached, if some is of the kind */
        uint64_t reserved_peak;
        uint64_t declared;        /* by the tenant's clients; part of charged */
        uint64_t seen_idle_bytes; /* as the pool's */
        uint64_t n_waiting;       /* requests, parts of groups among them */
        struct bins bins;
        TAILQ_HEAD(holding_blocks, block) cached; /* sorted by caching, the oldest first */
        struct holding_blocks
                leased; /* that may be idle; leased, or seen in use, longest ago first */
        TAILQ_HEAD(holding_waiting, request) waiting; /* the one that asked first is first */
        uint64_t n_given_bytes;                       /* of new blocks; see waiting_queue.h */
        uint64_t place; /* with the next two: used in a walk, and while the tenant waits */
        struct request *next;
        TAILQ_ENTRY(holding) queue_link;
        struct block *evict_next; /* where evict_search goes on; NULL: at the first, or over */
        uint64_t evict_search;
        /* When idle leases were last taken for another tenant, and for which request, by its number. */
        uint64_t revoked_ns, revoked_for;
        bool was_revoked_from;
        uint64_t search;        /* the last search for idle leases that saw it */
        uint64_t n_found_bytes; /* of this tenant, in that search */
};

/* An owner with all its tenants: what it may take of what all share is counted here; see owner.h. */
struct owner {
        struct policy *policy;
        struct tenant_key key;
        uint32_t n_tenants;
        TAILQ_HEAD(owner_tenants, tenant) tenants; /* those that were looked at longest ago first */
        uint32_t n_waiting, n_first;               /* as the policy's */
        uint32_t n_making;                         /* of these: their blocks are being made */
        uint32_t n_with_blocks;                    /* tenants that have a block with a file open */
        UT_hash_handle hh;
        struct owned {
                uint64_t n_open, n_closing, cached;       /* as in struct totals */
                struct ranked cached_sums[EVICT_N_KINDS]; /* as a holding's */
                struct ranking by_cached[EVICT_N_KINDS];  /* its tenants' holdings, as the pool's */
                struct backfill_hold hold;
        } owned[]; /* one for each pool */
};

/* A user in a container, whose clients trust each other; see tenant.h. */
struct tenant {
        struct policy *policy;
        struct owner *owner;
        struct tenant_key key;
        uint32_t n_refs; /* clients and blocks */
        uint32_t n_holdings;
        uint32_t n_waiting;
        bool has_first;  /* one of these has a first place: see tenant.h */
        uint64_t n_open; /* its blocks in all pools with a file open */
        TAILQ_ENTRY(tenant) owner_link;
        struct usage usage;        /* of its clients */
        struct usage kept;         /* of its clients */
        struct usage shared_usage; /* see shared_usage.h */
        uint64_t counted;
        uint32_t number; /* as a block's */
        struct limited limited;
        struct client *keeper; /* with n_keeps: see kept_shares.h */
        uint32_t n_keeps;
        UT_hash_handle hh;
        struct holding holdings[]; /* one for each pool */
};

/* One connection: its requests, leases and charges; see client.h. */
struct client {
        struct policy *policy;
        struct tenant *tenant;
        uint64_t number; /* from 1, never reused */
        void *owner;
        bool is_ending; /* its leases end: from before the first of the two signs on */
        bool eof, dead;
        struct lease *next_to_drop; /* while it is ending */
        struct slot_set slots;
        _Atomic uint64_t *words; /* by slot; the client may write any value. NULL: none */
        TAILQ_HEAD(client_leases, lease) leases; /* in all states, the eldest first */
        struct lease **places;                   /* the same by their ids: lists, see lease.c */
        unsigned n_places;
        LIST_HEAD(client_returned, lease) returned;
        TAILQ_HEAD(client_requests, request) requests;
        uint32_t n_waiting; /* unanswered requests */
        bool gathers;       /* its last LEASE belongs to a group that is not complete */
        int gather_outcome; /* the first refusal in that group, which refuses all of it */
        uint64_t stuck;     /* the last look for a deadlock that saw it wait */
        LIST_HEAD(client_release_alls, release_all) release_alls;
        uint64_t n_held_bytes;   /* of an earlier daemon's blocks: the most that may be declared */
        struct charge *declared; /* one for each pool */
        struct usage usage;
        struct usage kept;         /* part of it: see charge.h */
        struct usage shared_usage; /* see shared_usage.h */
        uint64_t counted;          /* number of the count that saw it last */
        struct limited limited;
        struct refusal spare; /* for a request without memory */
        bool hears_pressure;  /* see client_hear_pressure */
        uint64_t line;        /* see client_set_line */
        struct action_node mark;
        uint64_t marked_ns; /* when it was last asked to mark idle leases */
        LIST_ENTRY(client) link;
        struct charge_sum sums[]; /* one for each pool */
};

enum request_state {
        REQUEST_NEW,
        REQUEST_PART,     /* part of a group: waits for its leader */
        REQUEST_WAITING,  /* for room */
        REQUEST_CREATING, /* its block is being created */
        REQUEST_REFUSED,  /* until the server takes the refusal */
        REQUEST_N_STATES,
};

/* One request for a block, until it is granted, withdrawn, or its refusal has been taken; see request.h. */
struct request {
        enum request_state state;
        struct client *client;
        struct pool *pool; /* NULL only before it waits */
        uint64_t n_bytes;
        uint64_t n_most_bytes;  /* largest cached block that serves it */
        uint64_t n_least_bytes; /* smallest block that serves it if no other does */
        bool known_will_do, only_known, only_cached, keeps_mapped;
        uint32_t properties;
        uint64_t deadline_ns;
        unsigned n_told;  /* clients, of pressure; see pressure.h */
        bool may_wait;    /* its deadline was in the future when it was made */
        bool covered;     /* WAITING, and bytes that are certain to come are meant for it */
        bool device_full; /* the driver had no memory for it at the last try */
        bool in_group; /* with the next fields: see request_group.h. A single request is a group of one */
        struct request *leader; /* in PART only; NULL: not known yet */
        struct request
                *next_size; /* of a group, from its completion on: its next part of another size */
        uint32_t n_of_size; /* parts of this one's size, if it is the first of these */
        uint32_t n_sizes;   /* of a leader: how many there are */
        uint32_t n_parts;   /* requests that it leads, including itself */
        uint64_t n_all_bytes;  /* of these */
        uint32_t n_to_make;    /* of these, without a block */
        uint64_t n_room_bytes; /* of those */
        uint64_t n_backs;      /* of the pool, at the last try */
        struct lease *lease;
        struct block *block; /* in CREATING only */
        struct refusal refusal;
        TAILQ_ENTRY(request) client_link;
        TAILQ_ENTRY(request) queue_link; /* in WAITING and CREATING only, like its number */
        uint64_t number;                 /* in the order of the requests */
        unsigned n_bypassed;    /* times that a later request got what this one waits for; at most
                                  * BACKFILL_MAX. Without those since the last walk met it, */
        bool is_bypassed;       /* if they count: */
        uint64_t n_bypasses;    /* what the pool had then */
        uint64_t meant;         /* number of the walk that met it and means bytes for it, */
        uint64_t n_meant_bytes; /* so many */
};

enum block_state {
        BLOCK_NONE,               /* not counted: just begun, or gone */
        BLOCK_CREATING,           /* begun for a request; counts as leased and is charged */
        BLOCK_CREATING_FOR_CACHE, /* begun for no request, or for a withdrawn one; counts as cached */
        BLOCK_LEASED,    /* in busy leases: one, or several if shared; charged to the client of
                          * the oldest */
        BLOCK_CACHED,    /* in no lease; found through its bin */
        BLOCK_RELEASING, /* being released, not confirmed by the worker; counts as lingering */
        BLOCK_LINGERING, /* released by the worker, but a client may still map it */
        BLOCK_N_STATES,
};

/* One driver allocation or memfd, from the action that creates it until its last byte is back; see block.h. */
struct block {
        uint64_t id;
        enum block_state state;
        bool is_uncounted; /* its shared usage is to be counted again: see shared_usage.h */
        bool in_charged;   /* in the list of charged_link */
        bool seen_in_use;  /* when policy_age last looked; true unless it may be idle */
        bool seen_idle;    /* when policy_next_block last looked; false unless it may be idle */
        struct pool *pool; /* fixed for life */
        struct holding *holding;
        struct bin *bin; /* tells its size and properties, fixed for life */
        void *backing;   /* of the server; NULL before creation and after release */
        struct charge charge;
        struct action_node action;       /* CREATE or RELEASE */
        struct request *request;         /* in CREATING only: the request for which it is made */
        struct release_all *release_all; /* the one that waits for its release, or NULL */
        uint64_t made_ns;                /* when CREATE was given */
        uint64_t since_ns;               /* when its state changed last */
        uint64_t taken_from; /* number of the client from which it was last taken for another */
        uint64_t taken_ns;   /* when that was */
        uint64_t release_ns; /* when its release began, if it has, */
        uint64_t line;       /* and for whom: as in struct action */
        bool is_expected;    /* with the next two, of a released block: see unmap_timeout.h */
        bool unmap_timed_out;
        struct client *unresponsive_holder; /* the client that does not unmap it, or NULL */
        uint64_t cached_at;                 /* in CACHED: number of this caching in the pool */
        TAILQ_HEAD(block_leases, lease) leases;
        struct lease
                *eldest; /* in `leases`; those before it, which are behind it there, are not busy */
        uint32_t n_leases;    /* in `leases` */
        uint32_t n_busy;      /* of these */
        uint32_t n_keeping;   /* of these, with keeps_mapped */
        uint32_t n_to_recall; /* of these, revoked, and the client was not told to unmap it */
        uint32_t n_charge_transfers; /* times that its charge moved to another client */
        uint32_t n_grants;           /* requests that it was granted to */
        uint32_t n_shares;           /* tokens by which it may be attached, in LEASED only */
        LIST_HEAD(block_shares, share) shares;
        LIST_ENTRY(block) pool_link;
        uint32_t number; /* among all of the policy, see struct policy */
        LIST_ENTRY(block) release_all_link;
        TAILQ_ENTRY(block) charged_link; /* in CACHED, while a client is charged */
        TAILQ_ENTRY(block)
        bin_link; /* with the next two: in CACHED, and in LEASED if it may be idle */
        TAILQ_ENTRY(block) holding_link;
        TAILQ_ENTRY(block) pool_age_link; /* also while it is expected */
        uint64_t idle_since_ns; /* not seen_in_use: when it was first seen so; in CACHED: when its
                                 * last use had ended; see aging.h */
        const _Atomic uint64_t *word; /* of its lease on the board, if it may be idle; else NULL */
        uint64_t idle_word;           /* the word says so: the lease is idle */
        bool unusable;                /* must not be cached */
        bool unreleasable;            /* to be released, but the driver did not take it */
};

/* What its tenant holds in its pool. */
static inline struct holding *request_holding(const struct request *request)
{
        return &request->client->tenant->holdings[request->pool->id];
}

enum lease_state {
        LEASE_ASKED,    /* for an unanswered request; has no block */
        LEASE_BUSY,     /* the client may use the block; the board's word may call it idle */
        LEASE_RETURNED, /* the client may not use the block, but may still map it; keeps the slot */
        LEASE_N_STATES,
};

/* One client's right to one block, from its request on; see lease.h. */
struct lease {
        uint64_t id; /* 56 bits, never 0, never reused */
        uint32_t slot;
        enum lease_state state;
        struct client *client;
        struct block *block;
        struct action_node action; /* GRANT; in RETURNED: NOTICE */
        uint32_t serial;           /* of the granted request */
        bool attached;             /* by a token, to a block of another lease */
        bool known_will_do;        /* set in the client's request */
        bool keeps_mapped;         /* the client does not unmap it when asked to */
        bool left_in_use; /* its client ended while it was in use, and the process may still use it */
        bool revoked;     /* taken from the client, not returned */
        bool recalled;    /* the client was told to unmap it */
        bool counts_for_client, counts_for_tenant; /* see shared_usage.h */
        struct lease *next_in_place;
        TAILQ_ENTRY(lease) client_link, block_link;
        LIST_ENTRY(lease) returned_link; /* in RETURNED only */
};

/* One token by which other clients attach one block; see share.h. */
struct share {
        struct policy_token token;
        uint64_t n_bytes;
        uint32_t granted_uid; /* or POLICY_NO_UID */
        struct block *block;
        struct lease *keeper; /* with keep_ns: see kept_shares.h; NULL: no keep has begun */
        uint64_t keep_ns;
        uint64_t keep_end_ns;
        uint64_t keep_number; /* of those that end at the same time the lowest ends first */
        uint32_t keep_place;  /* while the keeper's lease is busy */
        UT_hash_handle hh;
        LIST_ENTRY(share) block_link;
};

/* One call that gives blocks back to the driver, until its answer is taken; see release_all.h. */
struct release_all {
        struct client *client;
        uint32_t serial;
        uint32_t pool;
        uint64_t n_bytes; /* of all its blocks except those that stay in processes */
        uint64_t n_blocks;
        bool of_others; /* may include blocks of other tenants */
        enum policy_scope scope;
        bool (*is_chosen)(const struct tenant_key *key, const void *argument); /* NULL: by scope */
        const void *argument;
        bool is_walking; /* not all blocks have been looked at */
        struct numbered_walk walk;
        LIST_HEAD(release_all_blocks, block) unreleased;
        struct action_node action; /* FREED */
        LIST_ENTRY(release_all) client_link;
};
