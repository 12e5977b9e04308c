/* SPDX-License-Identifier: Apache-2.0 */
/* Who gets which block: the daemon's decisions, without any of its deeds.
 *
 * Pure: no I/O, no clock, no driver. The server tells what happened (a request, a death, a block that was made) and
 * then takes actions until none is left: what to make, what to release, what to answer. Time is an argument. One
 * thread.
 *
 * Every byte of a pool is in exactly one of: leased, cached, lingering. `reserved` is their sum. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

int policy_new(struct policy **ret_policy);

/* From now on; NULL: nobody. Copied. */
void policy_set_witness(struct policy *policy, const struct policy_witness *witness);

/* Frees everything; what `backing` pointers name must have been released before. */
struct policy *policy_free(struct policy *policy);

/* Pools are numbered 0, 1, ... in order of addition. -EBUSY once a client was added. */
int policy_add_pool(struct policy *policy, const struct policy_pool *pool, uint32_t *ret_id);

/* For so many blocks at a time, in all pools together, the daemon has files; before that there is no such limit. Of
 * these a tenant may have a share (fd_budget.h), and who wants more is refused GPUMEM_E_TOO_MANY. */
void policy_set_max_blocks(struct policy *policy, uint64_t n_blocks);

/* A client with up to n_slots leases at a time. `words`: one a slot, as board.h says, which the client may write at any
 * time; they stay there until the client is freed. NULL: no lease of it is ever idle. `owner` comes back from
 * client_owner(). */
int policy_add_client(struct policy *policy, const struct tenant_key *key, uint32_t n_slots,
                      _Atomic uint64_t *words, void *owner, struct client **ret_client);

/* Bytes of an earlier daemon's blocks that the client still maps, as it said when it came: what it declares of each
 * pool adds up to this at most. 0 unless it is set. */
void client_set_held(struct client *client, uint64_t n_bytes);

/* So many of them lie in this pool now. They are charged to the client, and are not reserved: the driver billed them to
 * a process that is gone. GPUMEM_E_NO_POOL; GPUMEM_E_BAD_REQUEST for more than the client holds, or than the pool's
 * capacity; GPUMEM_E_TOO_MANY when the sums over all who declare have no room for it. */
int policy_declare(struct policy *policy, struct client *client, uint32_t pool, uint64_t n_bytes,
                   uint64_t now_ns);

/* The two signs of an end. The first one drops the client: waiting requests are withdrawn without an answer, idle
 * leases' blocks are cached, the other blocks are released and linger on its charge. When both have come the charge
 * ends and `client` is freed; true is returned then. */
bool policy_client_eof(struct policy *policy, struct client *client, uint64_t now_ns);
bool policy_client_dead(struct policy *policy, struct client *client, uint64_t now_ns);

/* Asks for a block. Leads to ACTION_GRANT or ACTION_REFUSE now or later; GPUMEM_E_TOO_MANY when too many of the client
 * or its tenant wait. Without memory there is room for one refusal a client: actions are taken before the same client's
 * next request. */
void policy_lease(struct policy *policy, struct client *client, const struct policy_ask *ask,
                  uint64_t now_ns);

/* The server has refused it by itself: what is to be served together with it is refused, too. */
void policy_lease_denied(struct client *client, const struct policy_ask *ask);

/* Withdraws a waiting request: it is refused with GPUMEM_E_CANCELLED. One that has been answered, or never was, is
 * ignored in silence: the answer is on its way. Returns whether it waited. */
bool policy_cancel(struct policy *policy, struct client *client, uint32_t serial, uint64_t now_ns);

/* Gives a lease back. RETURN_MAPPED: the client still maps the block, keeps the slot, and says policy_unmapped later.
 * GPUMEM_E_NO_LEASE for an id that is not a lease of this client. */
enum return_kind { RETURN_MAPPED, RETURN_UNMAPPED };
int policy_return(struct policy *policy, struct client *client, uint64_t lease_id,
                  enum return_kind kind, uint64_t now_ns);

/* The mapping of a lease that was returned is gone; its slot is free. GPUMEM_E_NO_LEASE as above, also for a lease that
 * was not returned. */
int policy_unmapped(struct policy *policy, struct client *client, uint64_t lease_id,
                    uint64_t now_ns);

/* Gives blocks that are cached, or in idle leases, back to the driver: those of the client's tenant, or everybody's; of
 * one pool, or of POLICY_ALL_POOLS. Leads to ACTION_FREED when the last of them is released. */
int policy_release_all(struct policy *policy, struct client *client, uint32_t serial,
                       enum policy_scope scope, uint32_t pool);

/* Leases that were scanned for that, by all calls. */
uint64_t policy_release_scans(const struct policy *policy);

/* The same for the tenants that are chosen, in all pools. The choice is made before it returns, and says of how many
 * blocks; some of them may stay in processes. */
int policy_reclaim(struct policy *policy, struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument, uint64_t *ret_n_blocks);

/* The block of a lease that this client was told of, also one that it has returned and still maps; NULL for another id,
 * and for a block that is released. */
struct block *policy_leased_block(struct client *client, uint64_t lease_id);

/* Something is wrong with the block's bytes: no request is served by it any more. It is released when its lease ends,
 * or now if it is cached. */
void policy_mark_unusable(struct policy *policy, struct block *block, uint64_t now_ns);

/* Lets others attach the block of a lease, until policy_unshare or until nobody leases it any more. With keep_ns the
 * block stays for so long when the lease has ended, until the first other client attaches by this token or it is
 * withdrawn; charged to the tenant. GPUMEM_E_NO_LEASE;
 * GPUMEM_E_NOT_SHAREABLE for a block that was not asked for with POLICY_SHAREABLE, and for an attached one;
 * GPUMEM_E_BAD_REQUEST for more bytes than it has; GPUMEM_E_TOO_MANY tokens of one block, or blocks that are to be kept; -EEXIST for a token that is
 * in use; -ENOMEM. */
int policy_share(struct policy *policy, struct client *client, uint64_t lease_id,
                 const struct policy_share *share);

/* A lease on a shared block, at once and without an action. The first of its holders is charged for it; when that lease
 * ends the next one is, and when the last one ends it is released. GPUMEM_E_NO_TOKEN, also for a token that is not for
 * this client; GPUMEM_E_LIMIT for a client that could not be charged now for the block and all else that it has
 * attached, though it is not yet; GPUMEM_E_DRIVER where the device is lost; GPUMEM_E_SHUTTING_DOWN; GPUMEM_E_TOO_MANY,
 * also when the block has too many leases; -ENOMEM. */
int policy_attach(struct policy *policy, struct client *client, const struct policy_token *token,
                  struct lease **ret_lease, uint64_t *ret_n_bytes);

/* Nobody attaches by this token any more; who has attached keeps the lease. For every client of the block's tenant.
 * GPUMEM_E_NO_TOKEN as above. */
int policy_unshare(struct policy *policy, struct client *client, const struct policy_token *token,
                   uint64_t now_ns);

/* What became of ACTION_CREATE: 0 with the block's backing, GPUMEM_E_DEVICE_FULL, or another failure, which refuses the
 * request. */
void policy_created(struct policy *policy, struct block *block, int result, void *backing,
                    uint64_t now_ns);

/* ACTION_RELEASE is carried out. `block` is gone, unless a client still maps it. */
void policy_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* It could not be carried out, and will be tried again: nobody counts on these bytes until then. */
void policy_not_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* So much is no block's, and the driver does not take it back: what was left of a block that could not be made, or of a
 * trial of the driver. It lingers in the pool, and is no tenant's. GPUMEM_E_NO_POOL. */
int policy_set_unreleasable(struct policy *policy, uint32_t pool, uint64_t n_bytes,
                            uint64_t now_ns);

/* The status of the pool's driver from now on. Stalled: no order to make a block is given; a request that needs one
 * waits until its deadline and is refused with GPUMEM_E_STALLED, also one whose block is being made. Lost: every
 * request is refused with -ENODEV, and no block that there was is served again, also later. GPUMEM_E_NO_POOL. */
int policy_set_driver_status(struct policy *policy, uint32_t pool, enum driver_status driver_status,
                             uint64_t now_ns);

/* The driver may have got memory back that nobody told of: requests that it had none for are tried once more. */
void policy_retry(struct policy *policy, uint32_t pool, uint64_t now_ns);

/* When the first block is kept no more, whose sharer is over: policy_expire() is due then, too. UINT64_MAX: none is. */
uint64_t policy_next_keep_end(const struct policy *policy);

/* Refuses requests whose deadline has passed, and ends what is kept no more. */
void policy_expire(struct policy *policy, uint64_t now_ns);

/* When policy_expire() is due: the earliest deadline of a waiting request, the end of the time for which one holds up
 * others, or when the unmap of something that one waits for times out; UINT64_MAX when none waits. */
uint64_t policy_next_deadline(const struct policy *policy);

/* What is charged from now on is measured by this table, which the policy owns then; NULL: no limits. What is held
 * already stays, though it be more. Waiting requests that can never be served are refused. */
void policy_set_limits(struct policy *policy, struct limits *take_table, uint64_t now_ns);

/* Changes one limit: each client's, or each tenant's, or that of the tenant `uid`. LIMIT_INHERIT is the same as
 * LIMIT_NONE without a uid. GPUMEM_E_BAD_REQUEST: clients have no limits by uid; -ENOMEM changes nothing. */
#define POLICY_EVERY_UID UINT32_MAX
int policy_set_limit(struct policy *policy, enum limit_scope scope, uint32_t uid,
                     enum limit_kind kind, uint64_t max, uint64_t now_ns);

/* The table in force, or NULL. */
const struct limits *policy_limits(const struct policy *policy);

/* The most that a pool may reserve from now on. Cached blocks beyond it are released, then those of
 * idle leases, longest ago first; busy ones stay.
 * GPUMEM_E_NO_POOL. */
int policy_set_pool_max(struct policy *policy, uint32_t pool, uint64_t max_bytes, uint64_t now_ns);

/* A pool's min_bytes from now on. GPUMEM_E_NO_POOL. */
int policy_set_pool_min(struct policy *policy, uint32_t pool, uint64_t min_bytes, uint64_t now_ns);

/* From now on nobody is served before policy_serve(), which walks the queues once for all that has happened since: a
 * walk's length is the number of those who wait, whoever causes it. */
void policy_serve_in_turns(struct policy *policy);
void policy_serve(struct policy *policy, uint64_t now_ns);

/* Takes the next action; ACTION_NONE when there is none. */
struct action policy_next_action(struct policy *policy);

/* Gives ACTION_RELEASE for every block that nobody leases, now and from now on: for a daemon that ends. */
void policy_shut_down(struct policy *policy);
