/* A client as the files that hold public functions see it. Any thread; what is given here lives as
 * long as the client. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/events.h"
#include "client/pool.h"
#include "gpumem.h"

/* GPUMEM_E_FORKED in a child of the process that connected. */
int client_check(const struct gpumem_client *client);

/* The pools that were seen so far, from 0 on; NULL after the last. */
struct pool *client_pool(struct gpumem_client *client, uint32_t index);

struct events *client_events(struct gpumem_client *client);

/* Never the same for two clients of a process, one after another or at once. */
uint64_t client_number(const struct gpumem_client *client);

/* A struct of a caller's version is filled from ours: as many bytes as it has. -EINVAL when it is
 * too short to be one, or longer than ours. */
int check_struct(size_t n_their_bytes, size_t n_our_bytes);
