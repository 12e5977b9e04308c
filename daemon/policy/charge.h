/* What a client is held to account for: bytes of one block, added to the client, to its tenant and
 * to the pool. A charge stands inside the block that causes it; ending it gives the bytes back. */
#pragma once

#include <stdint.h>

struct client;
struct pool;

struct charge {
        struct client *client; /* NULL: nobody is charged */
        struct pool *pool;
        uint64_t n_bytes;
};

#define CHARGE_NULL          \
        {                    \
                .n_bytes = 0 \
        }

void charge_init(struct charge *charge, struct client *client, struct pool *pool, uint64_t n_bytes);

/* Legal also when nobody is charged. */
void charge_deinit(struct charge *charge);
