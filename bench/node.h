/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated node for replays, run by the daemon's own policy: one pool of device memory and one tenant.
 * Blocks are created and released at once. One thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Leases that a client of gpumemd may have: its board has a word for each. */
#define NODE_N_SLOTS 16384

struct node;

/* A client of the node. */
struct member;

int node_new(uint64_t n_device_bytes, struct node **ret_node);

/* Frees the node with its members. NULL is legal; returns NULL. */
struct node *node_free(struct node *node);

void node_set_time(struct node *node, double us);

/* Bytes that are leased, cached and lingering now. */
uint64_t node_reserved(const struct node *node);

/* At most n_slots leases at a time, NODE_N_SLOTS at most. The node owns the member. -ENOMEM. */
int node_add_member(struct node *node, uint32_t n_slots, struct member **ret_member);

uint32_t member_n_slots(const struct member *member);

struct node_lease {
        uint64_t id;
        uint64_t n_bytes;
        _Atomic uint64_t *word;
};

/* As LEASE, without waiting. An outcome of the policy, or -ENOMEM. */
int member_lease(struct member *member, uint64_t n_bytes, uint64_t n_least_bytes,
                 uint64_t n_most_bytes, struct node_lease *ret_lease);

/* The block is unmapped: of a lease that is returned, or of one that was revoked. */
void member_return(struct member *member, uint64_t lease);
void member_unmapped(struct member *member, uint64_t lease);

/* The member's process has ended: its busy blocks are released, its idle ones may be taken by others. */
void member_leave(struct member *member);

/* What the daemon has told the member since the last call. Each value includes those before it. */
enum member_news {
        MEMBER_NONE,
        MEMBER_UNMAP, /* the driver wants the memory of a revoked block */
        MEMBER_MARK,  /* idle leases must be marked at once */
};
enum member_news member_take_news(struct member *member);
