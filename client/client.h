/* A client as the files that hold public functions see it. Any thread; what is given here lives as
 * long as the client. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/link.h"
#include "client/pool.h"
#include "gpumem.h"

/* GPUMEM_E_FORKED in a child of the process that connected. */
int client_check(const struct gpumem_client *client);

struct link *client_link(struct gpumem_client *client);

/* NULL: no driver was loaded. */
const struct cuda *client_cuda(const struct gpumem_client *client);

/* By the daemon's number; NULL when there is no such pool. */
struct pool *client_pool(struct gpumem_client *client, uint32_t id);

/* A caller's struct of any version, as ours: fields that it lacks are 0. -EINVAL when it is too
 * short to be one, -E2BIG when it says something that is not known here. */
int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes);

/* gpumem_free and gpumem_free_sync of a pointer that is in no heap. GPUMEM_E_NOT_OURS,
 * GPUMEM_E_ATTACHED, or as these. */
int client_free_shared(struct gpumem_client *client, const void *pointer, void *stream);
int client_free_shared_sync(struct gpumem_client *client, const void *pointer);
