/* SPDX-License-Identifier: Apache-2.0 */
/* A node as the daemon's own policy runs it, for replays to lease from: one pool of device memory, one
 * tenant; blocks are made and released at once. One thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct node;

/* One client of it. */
struct member;

int node_new(uint64_t n_device_bytes, struct node **ret_node);

/* With its members. NULL is legal; returns NULL. */
struct node *node_free(struct node *node);

void node_set_time(struct node *node, double us);

/* Bytes leased, cached and lingering now. */
uint64_t node_reserved(const struct node *node);

/* Owned by the node. -ENOMEM. */
int node_add_member(struct node *node, struct member **ret_member);

struct node_lease {
        uint64_t id;
        uint64_t n_bytes;
        _Atomic uint64_t *word;
};

/* As LEASE, without waiting. An outcome of the policy's, or -ENOMEM. */
int member_lease(struct member *member, uint64_t n_bytes, uint64_t n_least_bytes,
                 uint64_t n_most_bytes, struct node_lease *ret_lease);

/* The block is unmapped: of a lease that is given back; of one that was revoked. */
void member_return(struct member *member, uint64_t lease);
void member_unmapped(struct member *member, uint64_t lease);

/* Its process has ended: what it used is released, what was idle is the others'. */
void member_leave(struct member *member);

/* What the daemon has told the member since it was last asked: each is more than the one before. */
enum member_news {
        MEMBER_NONE,
        MEMBER_UNMAP, /* a revoked block is wanted by the driver */
        MEMBER_MARK,  /* what is idle is to be marked at once */
};
enum member_news member_take_news(struct member *member);
