/* One connection's standing: what it asked for, what it leases, what it is charged.
 *
 * Owned by the policy until both signs of its end have come. From the first one on it is dropped:
 * it holds nothing for use, but what it may still map is charged to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/charge.h"
#include "daemon/policy/lease.h"
#include "daemon/policy/refusal.h"
#include "daemon/policy/slots.h"
#include "daemon/policy/tenant.h"

#define CLIENT_MAX_WAITING 64

struct free_all;
struct request;

struct client {
        struct policy *policy;
        struct tenant *tenant;
        uint64_t number; /* from 1 on, never used twice */
        void *owner;
        bool eof;
        bool dead;
        struct slots slots;
        _Atomic uint64_t *words; /* by slot; anybody's guess what they say. NULL: none */
        struct lease *leases;    /* table by id, of all states */
        LIST_HEAD(client_returned, lease) returned;
        TAILQ_HEAD(client_requests, request) requests;
        uint32_t n_waiting; /* requests without an answer */
        LIST_HEAD(client_free_alls, free_all) free_alls;
        uint64_t n_held_bytes;   /* of an earlier daemon's blocks: declared is not more */
        struct charge *declared; /* one a pool */
        struct usage usage;
        struct usage kept;     /* part of it: see charge.h */
        struct usage attached; /* see attached.h */
        uint64_t counted;      /* number of the count that saw it last */
        struct limited limited;
        struct refusal spare; /* for a request that there was no memory for */
        struct order_node mark;
        uint64_t marked_ns; /* when it was last asked to */
        LIST_ENTRY(client) link;
        uint64_t *late;     /* as charged: what it is late with, see overdue.h */
        uint64_t charged[]; /* one a pool */
};

/* -EINVAL for no slots at all, -ENOMEM. */
int client_new(struct policy *policy, const struct tenant_key *key, uint32_t n_slots, void *owner,
               struct client **ret_client);

/* Frees what it has asked for, and lets go of what it leases. */
void client_drop(struct client *client);

/* After client_drop: its mappings are gone, and so is the client. */
struct client *client_free(struct client *client);

/* Others are about to make memory that it may not need: it is asked to mark its idle leases, unless it
 * was a moment ago. */
#define CLIENT_MARK_NS UINT64_C(100000)
void client_ask_to_mark(struct client *client, uint64_t now_ns);

/* See policy_declare. */
int client_declare(struct client *client, struct pool *pool, uint64_t n_bytes);

/* Answers a request that there is no memory for. The server takes this before the next one. */
void client_refuse_spare(struct client *client, const struct policy_ask *ask, int outcome);
