/* A request for a block, until it is granted, withdrawn, or its refusal has been taken.
 *
 * Owned by its client. It stands in its pool's line while it is unanswered, also while its block
 * is being made: should that fail because the device is full, it still has its place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/bins.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/refusal.h"

struct block;
struct client;
struct lease;
struct pool;

enum request_state {
        REQUEST_NEW,
        REQUEST_WAITING,  /* for room */
        REQUEST_CREATING, /* for its block to be made */
        REQUEST_REFUSED,  /* for the server to take the refusal */
        REQUEST_N_STATES,
};

struct request {
        enum request_state state;
        struct client *client;
        struct pool *pool; /* NULL only before it waits */
        uint64_t n_bytes;
        uint64_t n_most_bytes;  /* of a cached block that serves it */
        uint64_t n_least_bytes; /* of one that serves it if no other does */
        bool known_will_do;
        bool only_known;
        bool keeps_mapped;
        uint32_t properties;
        uint64_t deadline_ns;
        bool may_wait;    /* its deadline lay ahead when it was asked */
        bool covered;     /* WAITING, but bytes that come for certain are meant for it */
        bool device_full; /* the driver had no memory for it when it was tried last */
        uint64_t n_backs; /* of the pool, when it was tried last */
        struct lease *lease;
        struct block *block; /* in CREATING only */
        struct refusal refusal;
        TAILQ_ENTRY(request) client_link;
        TAILQ_ENTRY(request) line_link; /* in WAITING and CREATING only, as its number */
        uint64_t number;                /* in the order of asking */
        unsigned n_passed;              /* times that a later one got what it waits for; PASSING_MAX
                                         * stands for more */
        unsigned n_passed_before;       /* these two in a walk; see passing.h */
        struct request *waits_next;
};

int request_new(struct client *client, const struct policy_ask *ask, struct request **ret_request);

/* Without a trace: for a request that is granted, or whose answer nobody reads. A block that is
 * being made for it is made for the cache, or not at all if nobody has begun. */
struct request *request_free(struct request *request);

/* Blocks that serve it; and smaller ones that are better than none. */
struct bin_range request_fits(const struct request *request);
struct bin_range request_takes(const struct request *request);

/* The client's unanswered request of this serial, or NULL. */
struct request *request_find(struct client *client, uint32_t serial);

/* Takes `lease` over and joins the end of its tenant's queue. */
void request_wait(struct request *request, struct pool *pool, struct lease *take_lease);

/* Has a block made for it; -ENOMEM. */
int request_create(struct request *request);

/* The driver had no memory: back to its place in the queue. The block is gone. */
void request_device_full(struct request *request);

/* Hands `block` over and ends the request. */
struct request *request_grant(struct request *request, struct block *block);

/* Gives up what it holds, and has the client told. Needs no memory. */
void request_refuse(struct request *request, int outcome);

/* The same with GPUMEM_E_LIMIT, for this limit. */
void request_refuse_limit(struct request *request, const struct limit_hit *hit);
