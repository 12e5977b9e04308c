/* "No", as an order: the answer to one request, kept until the server takes it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/policy/limit_table.h"
#include "daemon/policy/order_queue.h"

struct client;

struct refusal {
        struct order_node order;
        struct client *client;
        uint32_t pool; /* as it was asked for: there may be no such pool */
        uint32_t serial;
        int outcome;
        uint64_t n_bytes; /* as it was asked for */
        struct limit_hit hit;
        bool of_blocks;          /* too many of these */
        struct request *request; /* ends when the order is taken; NULL when there is none */
};
