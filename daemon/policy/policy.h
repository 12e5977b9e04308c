/* Who gets which block: the daemon's decisions, without any of its deeds.
 *
 * Pure: no I/O, no clock, no driver. The server tells what happened (a request, a death, a block
 * that was made) and then takes orders until none is left: what to make, what to let go, what to
 * answer. Time is an argument. One thread.
 *
 * Every byte of a pool is in exactly one of: leased, cached, lingering. `reserved` is their sum. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/limit_table.h"
#include "daemon/policy/standing.h"

#define POLICY_ALL_POOLS UINT32_MAX

/* A property: the block may be mapped by several clients, so it is never cached. */
#define POLICY_SHAREABLE (UINT32_C(1) << 0)

struct policy;

/* One connection's standing: its tenant, its leases, what it is charged. */
struct client;

/* One client's right to one block. */
struct lease;

/* One driver allocation or memfd. */
struct block;

enum policy_kind { POLICY_DEVICE = 1, POLICY_PINNED = 2 };

struct policy_pool {
        enum policy_kind kind;
        uint64_t max_bytes; /* nothing is made that would take reserved beyond it */
        uint64_t min_bytes; /* so much of its leases no tenant loses to others, idle as they are */
        uint64_t
                capacity_bytes; /* nobody can have more there, whichever daemon it was that gave it */
};

struct policy_ask {
        uint32_t pool;
        uint32_t serial;       /* names the request in orders and in cancel; unique in its client */
        uint64_t n_bytes;      /* a multiple of 2 MiB */
        uint64_t n_most_bytes; /* a cached block may be so large; 0, or more: 12.5 % larger */
        uint64_t n_least_bytes; /* if there is none, one so small will do; 0, or more: n_bytes */
        bool known_will_do;     /* a block that the client maps still goes before all others */
        bool only_known;        /* and no other will do: nothing is made or waited for */
        bool keeps_mapped;      /* nobody is asked to unmap it to make room: it would be in vain. So
                                 * it is charged until it is unmapped, or somebody leases it */
        uint32_t properties;    /* fixed at creation, part of what a cached block is found by */
        uint64_t deadline_ns;   /* now or earlier: do not wait for others */
};

/* What the server is to do next. */
enum order_kind {
        ORDER_NONE,
        ORDER_CREATE,  /* make `block` on its pool's worker, then policy_created() */
        ORDER_RELEASE, /* let go of `block`'s backing on the worker, then policy_released() */
        ORDER_GRANT,   /* answer `client`'s request `serial`: `lease` on `block` */
        ORDER_REFUSE,  /* answer it with `outcome`, a GPUMEM_E_* or a negative errno */
        ORDER_FREED,   /* answer its free_all: n_bytes and n_blocks went back to the driver */
        ORDER_NOTICE,  /* tell `client` to unmap the block of `lease`, which was revoked */
        ORDER_MARK,    /* ask `client` to mark idle now what it does not use */
};

struct order {
        enum order_kind kind;
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
        struct limit_hit limit; /* of a refusal with GPUMEM_E_LIMIT */
};

/* Told of what nobody asked for and no order says: an idle lease was taken back from the client, or it is late
 * with so much, which it was asked to unmap. The policy is at work then: nothing of it may be called but what
 * reads a client. */
struct policy_witness {
        void (*revoked)(void *argument, const struct client *client, uint32_t pool,
                        uint64_t n_bytes);
        void (*late)(void *argument, const struct client *client, uint32_t pool, uint64_t n_bytes);
        void *argument;
};

int policy_new(struct policy **ret_policy);

/* From now on; NULL: nobody. Copied. */
void policy_set_witness(struct policy *policy, const struct policy_witness *witness);

/* Frees everything; what `backing` pointers name must have been let go before. */
struct policy *policy_free(struct policy *policy);

/* Pools are numbered 0, 1, ... in order of addition. -EBUSY once a client was added. */
int policy_add_pool(struct policy *policy, const struct policy_pool *pool, uint32_t *ret_id);

/* Who trusts whom: a tenant is a user in a realm, which is a container or what else users are told
 * apart by; "" for none. All bytes of it are compared. */
#define POLICY_REALM_MAX 252
struct tenant_key {
        uint32_t uid;
        char realm[POLICY_REALM_MAX];
};

/* For so many blocks at a time, in all pools together, the daemon has files; before that there is no such
 * limit. Of these a tenant may have a share (files.h), and who wants more is refused GPUMEM_E_TOO_MANY. */
void policy_set_max_blocks(struct policy *policy, uint64_t n_blocks);
uint64_t policy_open_blocks(const struct policy *policy);

/* A client with up to n_slots leases at a time. `words`: one a slot, as board.h says, which the
 * client may write at any time; they stay there until the client is freed. NULL: no lease of it is
 * ever idle. `owner` comes back from client_owner(). */
int policy_add_client(struct policy *policy, const struct tenant_key *key, uint32_t n_slots,
                      _Atomic uint64_t *words, void *owner, struct client **ret_client);

/* Bytes of an earlier daemon's blocks that the client still maps, as it said when it came: what it
 * declares of each pool adds up to this at most. 0 unless it is set. */
void client_set_held(struct client *client, uint64_t n_bytes);

/* So many of them lie in this pool now. They are charged to the client, and are not reserved: the
 * driver billed them to a process that is gone. GPUMEM_E_NO_POOL; GPUMEM_E_BAD_REQUEST for more
 * than the client holds, or than the pool's capacity; GPUMEM_E_TOO_MANY when the sums over all who
 * declare have no room for it. */
int policy_declare(struct policy *policy, struct client *client, uint32_t pool, uint64_t n_bytes,
                   uint64_t now_ns);

/* The two signs of an end. The first one drops the client: waiting requests are withdrawn without
 * an answer, idle leases' blocks are cached, the other blocks are let go and linger on its charge.
 * When both have come the charge ends and `client` is freed; true is returned then. */
bool policy_client_eof(struct policy *policy, struct client *client, uint64_t now_ns);
bool policy_client_dead(struct policy *policy, struct client *client, uint64_t now_ns);

/* Asks for a block. Leads to ORDER_GRANT or ORDER_REFUSE now or later; GPUMEM_E_TOO_MANY when too many
 * of the client or its tenant wait. Without memory there is room for one refusal a client: orders are
 * taken before the same client's next request. */
void policy_lease(struct policy *policy, struct client *client, const struct policy_ask *ask,
                  uint64_t now_ns);

/* Withdraws a waiting request: it is refused with GPUMEM_E_CANCELLED. One that has been answered,
 * or never was, is passed over in silence: the answer is on its way. Returns whether it waited. */
bool policy_cancel(struct policy *policy, struct client *client, uint32_t serial, uint64_t now_ns);

/* Gives a lease back. RETURN_MAPPED: the client still maps the block, keeps the slot, and says
 * policy_unmapped later. GPUMEM_E_NO_LEASE for an id that is not a lease of this client. */
enum return_kind { RETURN_MAPPED, RETURN_UNMAPPED };
int policy_return(struct policy *policy, struct client *client, uint64_t lease_id,
                  enum return_kind kind, uint64_t now_ns);

/* The mapping of a lease that was returned is gone; its slot is free. GPUMEM_E_NO_LEASE as above,
 * also for a lease that was not returned. */
int policy_unmapped(struct policy *policy, struct client *client, uint64_t lease_id,
                    uint64_t now_ns);

/* Gives blocks that are cached, or in idle leases, back to the driver: those of the client's tenant, or everybody's; of one
 * pool, or of POLICY_ALL_POOLS. Leads to ORDER_FREED when the last of them is released. */
enum policy_scope { SCOPE_TENANT = 1, SCOPE_NODE = 2 };
int policy_free_all(struct policy *policy, struct client *client, uint32_t serial,
                    enum policy_scope scope, uint32_t pool);

/* Leases that were looked at for that, by whomever. */
uint64_t policy_free_looks(const struct policy *policy);

/* The same for the tenants that are chosen, in all pools. The choice is made before it returns, and says of how
 * many blocks; some of them may stay in processes. */
int policy_reclaim(struct policy *policy, struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument, uint64_t *ret_n_blocks);

/* The block of a lease that this client was told of, also one that it has returned and still maps;
 * NULL for another id, and for a block that is let go. */
struct block *policy_leased_block(struct client *client, uint64_t lease_id);

/* Something is wrong with the block's bytes: nobody is served it any more. It is let go when its
 * lease ends, or now if it is cached. */
void policy_spoil(struct policy *policy, struct block *block, uint64_t now_ns);

/* What names a shared block to those who may attach it. The server draws the bits. */
#define POLICY_TOKEN_BYTES 16
struct policy_token {
        uint8_t bytes[POLICY_TOKEN_BYTES];
};

#define POLICY_NO_UID UINT32_MAX

struct policy_share {
        struct policy_token token;
        uint64_t n_bytes; /* of the allocation in the block, told to those who attach */
        uint32_t
                granted_uid; /* whose tenant may attach besides the block's own; or POLICY_NO_UID */
};

/* Lets others attach the block of a lease, until policy_unshare or until nobody leases it any more.
 * GPUMEM_E_NO_LEASE; GPUMEM_E_NOT_SHAREABLE for a block that was not asked for with
 * POLICY_SHAREABLE, and for an attached one; GPUMEM_E_BAD_REQUEST for more bytes than it has;
 * GPUMEM_E_TOO_MANY tokens of one block; -EEXIST for a token that is in use; -ENOMEM. */
int policy_share(struct policy *policy, struct client *client, uint64_t lease_id,
                 const struct policy_share *share);

/* A lease on a shared block, at once and without an order. The first of its holders is charged for
 * it; when that lease ends the next one is, and when the last one ends it is let go.
 * GPUMEM_E_NO_TOKEN, also for a token that is not for this client; GPUMEM_E_LIMIT for a client that
 * could not be charged now for the block and all else that it has attached, though it is not yet;
 * GPUMEM_E_DRIVER where the device is lost; GPUMEM_E_SHUTTING_DOWN; GPUMEM_E_TOO_MANY, also when the block has
 * too many leases; -ENOMEM. */
int policy_attach(struct policy *policy, struct client *client, const struct policy_token *token,
                  struct lease **ret_lease, uint64_t *ret_n_bytes);

/* Nobody attaches by this token any more; who has attached keeps the lease. For every client of the
 * block's tenant. GPUMEM_E_NO_TOKEN as above. */
int policy_unshare(struct policy *policy, struct client *client, const struct policy_token *token);

/* What became of ORDER_CREATE: 0 with the block's backing, GPUMEM_E_DEVICE_FULL, or another
 * failure, which refuses the request. */
void policy_created(struct policy *policy, struct block *block, int result, void *backing,
                    uint64_t now_ns);

/* ORDER_RELEASE is carried out. `block` is gone, unless a client still maps it. */
void policy_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* It could not be carried out, and will be tried again: nobody counts on these bytes until then. */
void policy_not_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* So much is no block's, and the driver does not take it back: what was left of a block that could not be
 * made, or of a trial of the driver. It lingers in the pool, and is no tenant's. GPUMEM_E_NO_POOL. */
int policy_set_stranded(struct policy *policy, uint32_t pool, uint64_t n_bytes, uint64_t now_ns);

/* How the pool's driver stands from now on. Stalled: no order to make a block is given; a request that
 * needs one waits until its deadline and is refused with GPUMEM_E_STALLED, also one whose block is being
 * made. Lost: every request is refused with -ENODEV, and no block that there was is served again, also
 * later. GPUMEM_E_NO_POOL. */
int policy_set_standing(struct policy *policy, uint32_t pool, enum standing_state standing,
                        uint64_t now_ns);

/* The driver may have got memory back that nobody told of: requests that it had none for are tried
 * once more. */
void policy_retry(struct policy *policy, uint32_t pool, uint64_t now_ns);

/* Refuses requests whose deadline has passed. */
void policy_expire(struct policy *policy, uint64_t now_ns);

/* When policy_expire() is due: the earliest deadline of a waiting request, the end of the time for which one
 * holds up others, or when something that one waits for is overdue; UINT64_MAX when none waits. */
uint64_t policy_next_deadline(const struct policy *policy);

/* What is charged from now on is measured by this table, which the policy owns then; NULL: no limits.
 * What is held already stays, though it be more. Waiting requests that can never be served are
 * refused. */
void policy_set_limits(struct policy *policy, struct limit_table *take_table, uint64_t now_ns);

/* Changes one limit: each client's, or each tenant's, or that of the tenant `uid`. LIMIT_INHERIT is
 * the same as LIMIT_NONE without a uid. GPUMEM_E_BAD_REQUEST: clients have no limits by uid;
 * -ENOMEM changes nothing. */
#define POLICY_EVERY_UID UINT32_MAX
int policy_set_limit(struct policy *policy, enum limit_scope scope, uint32_t uid,
                     enum limit_kind kind, uint64_t max, uint64_t now_ns);

/* The table in force, or NULL. */
const struct limit_table *policy_limits(const struct policy *policy);

/* The most that a pool may reserve from now on. Cached blocks beyond it are let go, then those of
 * idle leases, longest ago first; busy ones stay.
 * GPUMEM_E_NO_POOL. */
int policy_set_pool_max(struct policy *policy, uint32_t pool, uint64_t max_bytes, uint64_t now_ns);

/* A pool's min_bytes from now on. GPUMEM_E_NO_POOL. */
int policy_set_pool_min(struct policy *policy, uint32_t pool, uint64_t min_bytes, uint64_t now_ns);

/* From now on nobody is served before policy_serve(), which walks the queues once for all that has
 * happened since: a walk's length is the number of those who wait, whoever causes it. */
void policy_serve_in_turns(struct policy *policy);
void policy_serve(struct policy *policy, uint64_t now_ns);

/* Takes the next order; ORDER_NONE when there is none. */
struct order policy_next_order(struct policy *policy);

/* Orders ORDER_RELEASE for every block that nobody leases, now and from now on: for a daemon that
 * ends. */
void policy_shut_down(struct policy *policy);

void *client_owner(const struct client *client);
const struct tenant_key *client_tenant_key(const struct client *client);
uint64_t lease_id(const struct lease *lease);
uint32_t lease_slot(const struct lease *lease);
struct block *lease_block(const struct lease *lease); /* of a lease that was granted */
uint64_t block_id(const struct block *block);
uint32_t block_pool(const struct block *block);
uint64_t block_bytes(const struct block *block);
uint32_t block_properties(const struct block *block);
void *block_backing(const struct block *block);
/* Of a block that is being made: whether whoever asked for it still waits. If not, it may as well not
 * be made: policy_created() with -ECANCELED. */
bool block_is_awaited(const struct block *block);

/* Of a block that is let go: whether a process whose client has ended may use what is in it still. Who has given it
 * back, or was revoked it, does not, be it mapped there or not. */
bool block_may_be_used(const struct block *block);

/* One pool's figures, in bytes where not said otherwise. */
struct pool_figures {
        uint64_t max;
        uint64_t leased;
        uint64_t cached;
        uint64_t lingering;
        uint64_t overdue;  /* lingering, mapped, and not unmapped for a second: see overdue.h */
        uint64_t late;     /* of that, what a client was told to unmap that could answer */
        uint64_t reserved; /* leased + cached + lingering */
        uint64_t reserved_peak;
        uint64_t charged; /* to clients: leased, lingering that a client may still map, cached that
                           * one keeps mapped, declared */
        uint64_t declared;
        uint64_t n_blocks;
        uint64_t n_leases;  /* busy or idle; several of a shared block */
        uint64_t n_waiting; /* requests */
        uint64_t n_grants_from_cache;
        uint64_t n_creates;
        uint64_t n_releases;
        uint64_t n_refusals;
        uint64_t n_revocations;
        uint64_t n_known_grants;
        uint64_t n_notices;
};

/* GPUMEM_E_NO_POOL for an unknown pool. */
int policy_pool_figures(const struct policy *policy, uint32_t pool,
                        struct pool_figures *ret_figures);

/* Looks at every word of every lease, once: what is told of idle leases from now on is of this moment, so
 * that sums agree. Returns how many there are. */
uint64_t policy_see_idle(struct policy *policy);

/* The same for one pool, unless that was done a moment ago: who is asked for it at any rate looks so often
 * at most, however many leases there are. */
#define POLICY_SEEN_NS UINT64_C(10000000)
void policy_see_idle_of(struct policy *policy, uint32_t pool, uint64_t now_ns);

/* Bytes of the pool's leases that were idle then, and have not ended since. */
uint64_t policy_idle_bytes(const struct policy *policy, uint32_t pool);

/* What the client is charged in a pool, in bytes. */
uint64_t client_charged(const struct client *client, uint32_t pool);

/* Of that what lingers, and the client has not unmapped for a second though it was told to. */
uint64_t client_late(const struct client *client, uint32_t pool);

/* May a block be mapped by this client: one that it leases, has given back, was let go of, or is an
 * earlier daemon's? */
bool client_maps_anything(const struct client *client);

/* What the client, and what its tenant with it, is charged over all pools. */
const struct usage *client_usage(const struct client *client);
const struct usage *client_tenant_usage(const struct client *client);

/* How much of that is cached, but kept mapped. */
const struct usage *client_kept(const struct client *client);
const struct usage *client_tenant_kept(const struct client *client);

/* Peaks of what is reserved begin anew at what is: the client's tenant's; or everybody's, and the
 * pool's own. Of one pool, or of POLICY_ALL_POOLS. GPUMEM_E_NO_POOL. */
int policy_reset_peaks(struct policy *policy, const struct client *client, enum policy_scope scope,
                       uint32_t pool);

/* Derives every total and every link anew and asserts them. */
void policy_check(const struct policy *policy);
