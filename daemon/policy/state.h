/* Everything that the policy knows. Owns pools and clients; through these, all else. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/policy/order_queue.h"
#include "daemon/policy/policy.h"

struct client;
struct pool;
struct share;
struct tenant;

struct policy {
        struct order_queue orders;
        struct pool **pools;
        uint32_t n_pools;
        struct tenant *tenants; /* table by key */
        struct tenant *nobody;  /* of these, whose blocks are made ahead; NULL: there is none */
        LIST_HEAD(policy_clients, client) clients;
        uint64_t last_client_number;
        uint64_t last_lease_id;
        uint64_t last_block_id;
        uint64_t now_ns;            /* of the last event that said: dates what blocks do */
        struct share *shares;       /* table by token */
        struct limit_table *limits; /* NULL: none */
        uint64_t n_charges;         /* begun, ever */
        uint64_t n_revocations;     /* ever */
        uint64_t n_free_looks;      /* at leases, for whoever wanted idle ones freed, ever */
        uint64_t n_walks;           /* through a pool's queue, ever */
        uint64_t n_counts;          /* of shared blocks, ever */
        uint64_t max_blocks;        /* see files.h */
        bool wants_file;            /* somebody has waited for one since all pools were served */
        bool draining;              /* see drain.h */
        bool in_turns;              /* see policy_serve_in_turns */
        struct policy_witness witness;
};
