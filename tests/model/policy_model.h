/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of a policy, kept in plain lists from nothing but its public interface: every call
 * that a test makes and every action that it takes goes through here, is written down, and is
 * compared. Nothing is looked up in an index and no total is kept: all is searched and summed.
 *
 * With EXACT all actions are taken after every event, as a server does: then also choices are
 * checked (which block, in which order, whether in time). With LAZY actions are left standing while
 * other things happen; then who holds what, and the sums whenever no action is left. */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/report/stats.h"
#include "gpumem.h"

#define MODEL_N_POOLS     3
#define MODEL_PINNED_POOL 2 /* the others are devices */
#define MODEL_N_UIDS      3
#define MODEL_UNOWNED     MODEL_N_UIDS /* whose blocks are those that are prewarmed */
#define MODEL_N_TENANTS   (MODEL_N_UIDS + 1)

#define must(model, condition)                                                   \
        do {                                                                     \
                if (!(condition))                                                \
                        ck_abort_msg("step %lu: %s", (model)->step, #condition); \
        } while (0)

enum model_kind { MODEL_EXACT, MODEL_LAZY };

enum model_state {
        MODEL_MAKING,             /* the worker makes it for `request` */
        MODEL_CREATING_FOR_CACHE, /* the worker makes it, but no request waits for it any more */
        MODEL_MADE,               /* made for `request`, which is to be told */
        MODEL_HELD,
        MODEL_CACHED,
        MODEL_RELEASING,
        MODEL_LINGERING,
};

struct model_block {
        struct block *block; /* NULL: prewarmed, but the action to do so is not taken */
        uint64_t id;
        uint32_t pool;
        uint32_t uid;
        uint64_t n_bytes;
        uint32_t properties;
        enum model_state state;
        struct model_request *request;
        struct model_release_all *release_all;
        uint64_t cached_at;
        uint64_t cached_ns; /* when it was cached, or was seen idle before; see model_note_cached */
        uint64_t may_be_cached_ns;
        bool release_given;
        bool evicted; /* since the last comparison, for room */
        bool unusable;
        uint32_t n_grants;
        bool unreleasable;                     /* the driver would not take it */
        const struct model_client *lost_by;    /* the lease that was revoked last */
        const struct model_client *taken_from; /* the same, when it was granted to another last */
        uint64_t taken_ns;
        uint64_t release_ns;
        bool was_held; /* with the next three: see model_age */
        bool aged;
        uint64_t idle_since_ns;        /* at every look, of all blocks, since then; 0: not */
        uint64_t may_be_idle_since_ns; /* the same if looks that may have missed it did; 0: not */
        bool was_idle;                 /* it was revoked since the last comparison */
        enum action_kind job;
        TAILQ_ENTRY(model_block) job_link;              /* in the worker's queue */
        TAILQ_HEAD(model_mappings, model_lease) leases; /* granted last is first */
        LIST_ENTRY(model_block) link;
};

struct model_lease {
        uint64_t id;
        uint32_t slot;
        bool busy;
        bool attached;
        bool keeps_mapped;
        bool revoked;
        bool recalled;
        bool idle_at_end; /* of its client */
        struct model_client *client;
        struct model_block *block;
        TAILQ_ENTRY(model_lease) block_link;
        LIST_ENTRY(model_lease) client_link;
};

struct model_request {
        struct model_client *client;
        struct policy_ask ask;
        bool may_wait;
        bool cancelled;
        bool predicted; /* `outcome` is known: 0 stands for "not refused at once" */
        int outcome;
        bool room_was_there; /* when it was asked, in `step` */
        unsigned long step;
        uint64_t number;     /* in the order of asking */
        unsigned n_bypassed; /* times for certain; it may have been more */
        bool device_full;
        uint64_t n_backs;
        int failure; /* the driver's or its status, which it must be refused with */
        struct model_block *block;
        TAILQ_ENTRY(model_request) link;
};

struct model_release_all {
        struct model_client *client;
        uint32_t serial;
        uint64_t n_bytes;
        uint64_t n_blocks;
        uint64_t n_unreleased;
        LIST_ENTRY(model_release_all) link;
};

struct model_share {
        struct policy_share terms;
        struct model_block *block;
        LIST_ENTRY(model_share) link;
};

struct model_client {
        struct client *client;
        uint32_t uid;
        uint32_t n_slots;
        bool eof;
        bool dead;
        bool hears_pressure;
        uint64_t told_ns[MODEL_N_POOLS]; /* of pressure; 0: never */
        bool waits_for_limit;            /* within model_held() */
        _Atomic uint64_t *words;         /* NULL: none */
        uint64_t *said;                  /* what the client itself wrote there last */
        LIST_HEAD(model_client_leases, model_lease) leases;
        LIST_ENTRY(model_client) link;
};

/* While a tenant's requests may be bypassed as often as others like: seen from what happens. */
struct model_rest {
        uint64_t asked_ns;    /* when the tenant asked first; 0: it has not */
        uint64_t earliest_ns; /* the last one began then or later, */
        uint64_t latest_ns;   /* and then or earlier; 0: there was none */
};

struct model_pool {
        enum driver_status driver_status;
        uint64_t n_device_bytes; /* what the driver has */
        uint64_t max_bytes;
        uint64_t max_since;     /* highest limit since the last comparison */
        uint64_t last_reserved; /* at that */
        bool was_trimmed;       /* since then, so that blocks went without a request */
        bool was_limited;       /* or for one that was refused in the end */
        bool had_action;        /* since then a new block, beside which unused ones do not stay */
        uint64_t n_backs;
        uint64_t n_given_bytes[MODEL_N_TENANTS]; /* of new blocks, see waiting_queue.h */
        uint64_t reached;
        struct model_rest rests[MODEL_N_TENANTS];
        uint64_t keep_bytes; /* of what is cached, see daemon/policy/aging.h */
        uint64_t return_after_ns;
        uint64_t n_least_aged_bytes; /* of what the last look took from clients and released */
        bool was_in_excess;          /* before that: then nothing is cached */
        uint64_t leased_peak, cached_peak; /* at the last comparison */
        uint64_t n_aged;
        uint64_t n_jobs; /* at the worker */
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_grants_from_cache;
        struct model_block *evicted_last; /* since the last comparison; in EXACT only */
};

/* Whose actions are being taken: of actions for no waiting request, only blocks that it means go. */
enum model_errand { MODEL_NO_ERRAND, MODEL_FREEING, MODEL_RETURNING, MODEL_DRAINING_IDLE };

struct model {
        struct policy *policy;
        enum model_kind kind;
        unsigned long step;
        uint64_t now_ns;
        bool settled; /* no action is left */
        bool closing;
        bool draining;
        enum model_errand errand;
        bool revoked; /* since the last comparison: limits were in the way of less than it seems */
        bool said;    /* by a client on its board, since the queues were walked last */
        bool unserved; /* charges have begun or ended in an errand since the queues were walked last */
        struct model_pool pools[MODEL_N_POOLS];
        uint64_t client_max[LIMIT_N_KINDS];
        uint64_t tenant_max[LIMIT_N_KINDS];
        uint64_t uid_max[MODEL_N_UIDS][LIMIT_N_KINDS];
        uint64_t n_limit_refusals;
        uint64_t max_blocks;
        bool few_fds; /* for blocks */
        unsigned long n_short_of_fds;
        LIST_HEAD(model_clients, model_client) clients;
        LIST_HEAD(model_blocks, model_block) blocks;
        TAILQ_HEAD(model_requests, model_request) requests; /* unanswered; asked first is first */
        LIST_HEAD(model_release_alls, model_release_all) release_alls;
        LIST_HEAD(model_shares, model_share) shares;
        uint64_t last_lease_id;
        uint64_t last_block_id;
        uint32_t last_serial;
        uint64_t n_cachings;
        uint64_t n_asked;
        uint64_t n_bypassed;
        uint64_t n_grants;
        uint64_t n_attached;
        uint64_t n_revoked;
        uint64_t n_recalled;
        uint64_t n_timed_out; /* comparisons in which something was */
        uint64_t n_known;
        uint64_t n_taken_back;
        uint64_t n_stalled; /* requests that were refused for it */
        uint64_t n_lost;
        uint64_t n_unreleasable;
        uint64_t n_reclaimed;
        uint64_t n_drained; /* of idle leases */
        uint64_t n_prewarmed;
        uint64_t n_from_unowned;
        uint64_t n_joined;
        uint64_t n_told_of_pressure;
        uint64_t n_uncached; /* refused, since a block had to be made */
        uint64_t n_returned;
        uint64_t n_aged;
        bool is_look_open; /* the last one did not come to the end */
};

void model_init(struct model *model, enum model_kind kind);
void model_deinit(struct model *model);

/* Something was told to the policy; and it has looked at all who wait. */
void model_happened(struct model *model);
void model_happened_and_served(struct model *model);

/* Events: each calls the policy and writes down what it must lead to. */
enum model_board { MODEL_WITHOUT_WORDS, MODEL_WITH_WORDS };
struct model_client *model_join(struct model *model, uint32_t uid, uint32_t n_slots,
                                enum model_board board);
/* The client writes on its board, whatever it likes. */
void model_say(struct model *model, struct model_client *client, uint32_t slot, uint64_t word);
/* Not shared, and its client says that it does not use it. */
bool model_is_idle(const struct model_lease *lease);

/* The client is about to end: notes what it does not use at this moment. */
void model_note_idle(struct model_client *client);
/* Finds out what the policy has revoked since it was asked last. */
void model_note_revoked(struct model *model);
void model_eof(struct model *model, struct model_client *client);
void model_dead(struct model *model, struct model_client *client);
void model_ask(struct model *model, struct model_client *client, const struct policy_ask *ask);
void model_cancel(struct model *model, struct model_request *request);
void model_return(struct model *model, struct model_lease *lease, enum return_kind kind);
void model_unmap(struct model *model, struct model_lease *lease);
void model_release_all(struct model *model, struct model_client *client, enum policy_scope scope,
                       uint32_t pool);
/* Of the tenants that are chosen. */
void model_reclaim(struct model *model, struct model_client *client,
                   const bool is_chosen[MODEL_N_TENANTS]);

/* These four for a policy that has settled. */
void model_drain(struct model *model);
void model_drain_idle(struct model *model, unsigned n_scans);
void model_prewarm(struct model *model, uint32_t pool, uint64_t n_bytes);
/* It is cached now, and is as old as the looks say that found its lease idle. */
void model_note_cached(const struct model *model, struct model_block *block);

void model_age(struct model *model, unsigned n_looks);

/* After two scans of all that there was to be seen, and with their actions taken: what could go has gone. */
void model_expect_returned(const struct model *model);

/* After one, with its actions taken: what was taken from clients stays cached as far as the pool keeps it. */
void model_expect_kept(const struct model *model);

/* Leases of a pool that may become idle. */
unsigned model_n_candidates(const struct model *model, uint32_t pool);
void model_set_pool_keep(struct model *model, uint32_t pool, uint64_t keep_bytes,
                         uint64_t return_after_ns);

/* What is cached beyond what the pool keeps; and whether the block may go because of it, once it is old. */
uint64_t model_over(const struct model *model, uint32_t pool);
bool model_may_return(const struct model *model, const struct model_block *block);

/* For a policy that has settled. */
void model_mark_unusable(struct model *model, struct model_lease *lease);
void model_created(struct model *model, struct model_block *block, int result);
void model_released(struct model *model, struct model_block *block);
void model_not_released(struct model *model, struct model_block *block);

/* It went back: who waits for that waits for one less. */
void model_freed(struct model_block *block);

/* No request waits for it to go back any more: it stays where it is mapped. */
void model_not_freed(struct model_block *block);
/* For a policy that has settled. */
void model_set_driver_status(struct model *model, uint32_t pool, enum driver_status driver_status);
void model_expire(struct model *model);
void model_share(struct model *model, struct model_lease *lease, const struct policy_share *terms);
void model_attach(struct model *model, struct model_client *client,
                  const struct policy_token *token);
void model_unshare(struct model *model, struct model_client *client,
                   const struct policy_token *token);
void model_retry(struct model *model, uint32_t pool);
void model_shut_down(struct model *model);
void model_set_limit(struct model *model, enum limit_scope scope, uint32_t uid, unsigned kind,
                     uint64_t max);
void model_clear_limits(struct model *model);
void model_set_pool_max(struct model *model, uint32_t pool, uint64_t max_bytes);

/* Takes one action and checks it against what may be. The block of CREATE and RELEASE is returned in
 * ret_block. ACTION_NONE: the policy has settled. */
enum action_kind model_take(struct model *model, struct model_block **ret_block);

/* Compares everything that can be seen; for a policy that has settled. */
void model_compare(struct model *model);

/* The questions that the rules are made of. */
bool model_is_mapped(const struct model_block *block);

/* What brings it back when it is cached: the worker, the clients that map it once they are asked, or nothing. */
enum model_mapped { MODEL_UNMAPPED, MODEL_MAPPED, MODEL_KEPT };
enum model_mapped model_mapped(const struct model_block *block);
bool model_serves(const struct model_block *block, const struct model_request *request);
/* The same of one that was prewarmed, and that no client has had yet. */
bool model_would_serve(const struct model_block *block, const struct model_request *request);
bool model_speaks(const struct model_client *client);
uint64_t model_reserved(const struct model *model, uint32_t pool);
uint64_t model_room(const struct model *model, uint32_t pool);
/* Of cached blocks that no client maps; and of blocks that come back, or are made for the cache. */
uint64_t model_evictable(const struct model *model, uint32_t pool);
uint64_t model_incoming(const struct model *model, uint32_t pool);
unsigned model_n_unanswered(const struct model *model, const struct model_client *client);
/* Leases that a client has, and those that it may be granted. */
unsigned model_n_taken_slots(const struct model *model, const struct model_client *client);
/* The client that has had it longest of those that may use it; NULL: none may. */
struct model_client *model_oldest_user(const struct model_block *block);
/* What is leased or cached beyond the pool's limit. */
uint64_t model_excess(const struct model *model, uint32_t pool);
/* The client that the block is charged to: the one it is made for, its holder, or one that may still map it. */
const struct model_client *model_charge_owner(const struct model_block *block);
/* Whose limit the cached block would pass; what is charged for it already is no more than that. */
enum limit_scope model_limit_by(const struct model *model, const struct model_client *client,
                                const struct model_block *block);
/* Whose limit n_bytes more would pass; 0: none. */
enum limit_scope model_limit(const struct model *model, const struct model_client *client,
                             uint32_t pool, uint64_t n_bytes);
/* Whether a client must not join in on a block that another one is charged for. */
bool model_bars(const struct model *model, const struct model_client *client,
                const struct model_block *block);
/* Whose limit the request waits for, itself or behind another; 0: none. */
enum limit_scope model_held(const struct model *model, const struct model_request *request);
/* It passes a limit all by itself. */
bool model_can_never_be(const struct model *model, const struct model_request *request);
/* Unanswered requests for which no block is being made. */
unsigned model_n_queued(const struct model *model, uint32_t pool);

/* What several events and actions lead to. */
/* If no client and nothing of the tenant is left, it is forgotten. */
void model_look_for_end(struct model *model, uint32_t uid);
void model_give(struct model *model, const struct model_request *request, uint64_t n_bytes);
void model_release(const struct model *model, struct model_block *block);
void model_cache(struct model *model, struct model_block *block);
/* The lease is a mapping at most from now on; its tokens go with a block's last user. */
void model_end_use(struct model *model, struct model_lease *lease);
void model_add_lease(struct model *model, struct model_client *client, struct model_block *block,
                     const struct lease *name);
/* The request has gone: the worker makes its block in vain, or has. */
void model_make_for_cache(struct model *model, struct model_request *request);
void model_forget_block(struct model *model, struct model_block *block);
void model_forget_request(struct model *model, struct model_request *request);
