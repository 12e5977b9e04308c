/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which client gets which block. The server carries the decisions out.
 *
 * Pure: no I/O, no clock, no driver. The server reports events (a request, a death, a created block). It
 * then takes actions until none is left: blocks to create or release, and replies. Time is an argument. One
 * thread.
 *
 * Every byte of a pool is exactly one of leased, cached and lingering. `reserved` is their sum. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/state/public_types.h"

int policy_new(struct policy **ret_policy);

/* Copied. NULL: no witness. */
void policy_set_witness(struct policy *policy, const struct policy_witness *witness);

/* Frees everything. The server must have released its `backing` objects before. */
struct policy *policy_free(struct policy *policy);

/* Pools are numbered 0, 1, ... in order of addition. -EBUSY once a client was added. */
int policy_add_pool(struct policy *policy, const struct policy_pool *pool, uint32_t *ret_id);

/* The daemon has files for so many blocks, over all pools; without this call there is no such limit. A
 * tenant may use a share of them (fd_budget.h); a request beyond it is refused with GPUMEM_E_TOO_MANY. */
void policy_set_max_blocks(struct policy *policy, uint64_t n_blocks);

/* Adds a client with up to n_slots leases at a time. A tenant that has no other client yet belongs to the
 * owner of owner_key (owner.h). `words` has one word for each slot (board.h). The
 * client may write them at any time, and they must stay valid until the client is freed. NULL: no lease is
 * ever idle. client_owner() returns `owner`. */
int policy_add_client(struct policy *policy, const struct tenant_key *key,
                      const struct tenant_key *owner_key, uint32_t n_slots, _Atomic uint64_t *words,
                      void *owner, struct client **ret_client);

/* Bytes of an earlier daemon's blocks that the client still maps, as it reported in HELLO. The bytes that
 * it declares for all pools must not exceed this. 0 by default. */
void client_set_held(struct client *client, uint64_t n_bytes);

/* The same words, later: before the client has its first lease. */
void client_set_words(struct client *client, _Atomic uint64_t *words);

/* A number of those whose work the driver does by turns: blocks that go back to make room for the client's requests are
 * released in that line. 0, for none, by default. */
void client_set_line(struct client *client, uint64_t line);

/* The same for what goes back since a pool's limit was lowered. */
void policy_set_node_line(struct policy *policy, uint64_t line);

/* From now on the client is told when others lack memory of a pool of which it holds some: ACTION_PRESSURE. */
void client_hear_pressure(struct client *client);

/* Declares that so many of these bytes are in this pool. They are charged to the client but not reserved:
 * the driver counts them for a process that is gone. GPUMEM_E_NO_POOL; GPUMEM_E_BAD_REQUEST for more than
 * the client holds, or than the pool's capacity; GPUMEM_E_TOO_MANY if the sums over all clients overflow. */
int policy_declare(struct policy *policy, struct client *client, uint32_t pool, uint64_t n_bytes,
                   uint64_t now_ns);

/* The two signs of a client's end. The first one drops the client: waiting requests are withdrawn without
 * an answer, blocks of idle leases are cached, and other blocks are released and linger, charged to the
 * client. The second one ends the charge and frees `client`; the result is then true. */
bool policy_client_eof(struct policy *policy, struct client *client, uint64_t now_ns);
bool policy_client_dead(struct policy *policy, struct client *client, uint64_t now_ns);

/* A part of either sign's work, so that each takes only a moment: before the first sign, drops at most so many leases, of
 * which one whose block goes back is nine; before the second one, ends as many of the mappings that are left. Returns
 * whether there is more. From the first call on, nothing but its end may be told of the client. */
bool policy_client_drop_some(struct policy *policy, struct client *client, unsigned n_most,
                             uint64_t now_ns);
bool policy_client_unmap_some(struct policy *policy, struct client *client, unsigned n_most,
                              uint64_t now_ns);

/* Asks for a block. Leads to ACTION_GRANT or ACTION_REFUSE now or later; GPUMEM_E_TOO_MANY if too many
 * requests of the client or its tenant wait. Without memory, the client has room for one refusal: take all
 * actions before its next request. */
void policy_lease(struct policy *policy, struct client *client, const struct policy_ask *ask,
                  uint64_t now_ns);

/* The server has refused a request of a group itself: the group's other requests are refused, too. */
void policy_lease_denied(struct client *client, const struct policy_ask *ask);

/* Withdraws a waiting request: it is refused with GPUMEM_E_CANCELLED. An unknown request, or one that has
 * been answered, is ignored: its answer is on its way. Returns whether the request waited. */
bool policy_cancel(struct policy *policy, struct client *client, uint32_t serial, uint64_t now_ns);

/* Returns a lease. RETURN_MAPPED: the client still maps the block, keeps the slot, and calls
 * policy_unmapped later. RETURN_UNUSED: as RETURN_UNMAPPED, but a block that no other request was granted is
 * not cached. GPUMEM_E_NO_LEASE for an id that is not a lease of this client. */
enum return_kind { RETURN_MAPPED, RETURN_UNMAPPED, RETURN_UNUSED };
int policy_return(struct policy *policy, struct client *client, uint64_t lease_id,
                  enum return_kind kind, uint64_t now_ns);

/* The client has unmapped the block of a returned lease; its slot is free. GPUMEM_E_NO_LEASE for an unknown
 * lease, and for one that was not returned. */
int policy_unmapped(struct policy *policy, struct client *client, uint64_t lease_id,
                    uint64_t now_ns);

/* Gives cached blocks, and blocks of idle leases, back to the driver: those of the client's tenant or of
 * all tenants, in one pool or in POLICY_ALL_POOLS. Leads to ACTION_FREED when the last of them is released. */
int policy_release_all(struct policy *policy, struct client *client, uint32_t serial,
                       enum policy_scope scope, uint32_t pool);

/* Goes on with the client's last call of these, whose answer waits for that: looks at so many blocks, of which one that goes
 * back is nine. Returns whether others are left. Only after policy_serve_in_turns; otherwise the call itself looks at all. */
bool policy_release_more(struct policy *policy, struct client *client, unsigned n_most);

/* Events so far that give cause to walk through a queue once more. */
uint64_t policy_n_events(const struct policy *policy);

/* Requests so far that ended while their block was being made: no client may want it any more (block_is_awaited). */
uint64_t policy_n_unawaited(const struct policy *policy);

/* The same for chosen tenants, in all pools. `argument` must last as long as the client. Some of the blocks may stay
 * mapped in processes. */
int policy_reclaim(struct policy *policy, struct client *client, uint32_t serial,
                   bool (*is_chosen)(const struct tenant_key *key, const void *argument),
                   const void *argument);

/* The block of a lease that this client knows, also one that it has returned and still maps. NULL for
 * another id, and for a released block. */
struct block *policy_leased_block(struct client *client, uint64_t lease_id);

/* The block's bytes are damaged: it serves no further request. It is released when its lease ends, or now
 * if it is cached. */
void policy_mark_unusable(struct policy *policy, struct block *block, uint64_t now_ns);

/* Lets other clients attach the block of a lease, until policy_unshare or until no client leases the block.
 * With keep_ns, the block stays for so long after the lease has ended, charged to the tenant. This ends
 * when another client attaches by the token, or when the token is withdrawn. GPUMEM_E_NO_LEASE;
 * GPUMEM_E_NOT_SHAREABLE for a block without POLICY_SHAREABLE, and for an attached one;
 * GPUMEM_E_BAD_REQUEST for more bytes than the block has; GPUMEM_E_TOO_MANY tokens of one block, or blocks
 * to be kept; -EEXIST for a token in use; -ENOMEM. */
int policy_share(struct policy *policy, struct client *client, uint64_t lease_id,
                 const struct policy_share *share);

/* The pool of the block that the client may attach by this token; it changes nothing. GPUMEM_E_NO_TOKEN as below. */
int policy_shared_pool(const struct policy *policy, const struct client *client,
                       const struct policy_token *token, uint32_t *ret_pool);

/* Leases a shared block to the client, at once and without an action. The first holder is charged; when its
 * lease ends the next one is, and when the last lease ends the block is released. GPUMEM_E_NO_TOKEN, also
 * for a token that is not for this client; GPUMEM_E_LIMIT if the client could not bear the charge for the
 * block and all its attached ones; GPUMEM_E_DRIVER if the device is lost; GPUMEM_E_SHUTTING_DOWN;
 * GPUMEM_E_TOO_MANY, also if the block has too many leases; -ENOMEM. */
int policy_attach(struct policy *policy, struct client *client, const struct policy_token *token,
                  struct lease **ret_lease, uint64_t *ret_n_bytes);

/* Withdraws the token. Clients that have attached keep their leases. Every client of the block's tenant may
 * call this. GPUMEM_E_NO_TOKEN as above. */
int policy_unshare(struct policy *policy, struct client *client, const struct policy_token *token,
                   uint64_t now_ns);

/* The result of ACTION_CREATE: 0 with the block's backing, GPUMEM_E_DEVICE_FULL, or another failure, which
 * refuses the request. */
void policy_created(struct policy *policy, struct block *block, int result, void *backing,
                    uint64_t now_ns);

/* The result of ACTION_RELEASE: done. `block` is freed, unless a client still maps it. */
void policy_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* The result of ACTION_RELEASE: failed, and to be retried. Until then no request counts on these bytes. */
void policy_not_released(struct policy *policy, struct block *block, uint64_t now_ns);

/* Bytes that belong to no block and that the driver does not take back: the rest of a failed creation, or
 * of a trial of the driver. They linger in the pool, for no tenant. GPUMEM_E_NO_POOL. */
int policy_set_unreleasable(struct policy *policy, uint32_t pool, uint64_t n_bytes,
                            uint64_t now_ns);

/* Sets the status of the pool's driver. Stalled: no ACTION_CREATE is given. A request that needs one waits
 * until its deadline and is refused with GPUMEM_E_STALLED, also if its block is being created. Lost: every
 * request is refused with -ENODEV, and no existing block is served again. GPUMEM_E_NO_POOL. */
int policy_set_driver_status(struct policy *policy, uint32_t pool, enum driver_status driver_status,
                             uint64_t now_ns);

/* The driver may have memory again, without a message: retries requests for which it had none. */
void policy_retry(struct policy *policy, uint32_t pool, uint64_t now_ns);

/* When the first keep of an ended sharer ends: policy_expire() is due then, too. UINT64_MAX: there is none. */
uint64_t policy_next_keep_end(const struct policy *policy);

/* Refuses requests whose deadline has passed, and ends keeps whose time is over: at once, or in policy_serve. */
void policy_expire(struct policy *policy, uint64_t now_ns);

/* When policy_expire() is due: the earliest deadline of a request, the end of the time for which a request
 * holds up others, or an unmap timeout that a request waits for. UINT64_MAX: no request waits. */
uint64_t policy_next_deadline(const struct policy *policy);

/* Sets the limits for charges; the policy owns the table. NULL: no limits. Memory above a new limit stays.
 * Waiting requests that can never be served are refused. */
void policy_set_limits(struct policy *policy, struct limits *take_table, uint64_t now_ns);

/* Changes one limit: of every client, of every tenant, or of the tenants of `uid`. Without a uid,
 * LIMIT_INHERIT is the same as LIMIT_NONE. GPUMEM_E_BAD_REQUEST: clients have no limits by uid; -ENOMEM
 * changes nothing. */
#define POLICY_EVERY_UID UINT32_MAX
int policy_set_limit(struct policy *policy, enum limit_scope scope, uint32_t uid,
                     enum limit_kind kind, uint64_t max, uint64_t now_ns);

/* The current table, or NULL. */
const struct limits *policy_limits(const struct policy *policy);

/* Sets the most that a pool may reserve. Cached blocks beyond it are released, then those of idle leases,
 * the oldest first; busy ones stay. In turns policy_serve does this, before it serves. GPUMEM_E_NO_POOL. */
int policy_set_pool_max(struct policy *policy, uint32_t pool, uint64_t max_bytes, uint64_t now_ns);

/* Sets a pool's min_bytes. GPUMEM_E_NO_POOL. */
int policy_set_pool_min(struct policy *policy, uint32_t pool, uint64_t min_bytes, uint64_t now_ns);

/* From now on requests are served only in policy_serve(), which walks the queues once for all events since
 * the last call. A walk takes time for every waiting request, so it must not happen with each event, nor at one time:
 * a call does so many items of it, at least one. A request that goes on waiting is an item, an answer is 32. Returns
 * how many are left; 0: there may be more to do, also if no event follows. */
void policy_serve_in_turns(struct policy *policy);
unsigned policy_serve(struct policy *policy, unsigned n_items, uint64_t now_ns);

/* A cheap look: false if there is none. */
bool policy_has_action(const struct policy *policy);

/* Takes the next action; ACTION_NONE: there is none. */
struct action policy_next_action(struct policy *policy);

/* Gives ACTION_RELEASE for every block without a lease, now and from now on: the daemon ends. */
void policy_shut_down(struct policy *policy);
