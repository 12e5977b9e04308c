/* SPDX-License-Identifier: Apache-2.0 */
/* How a public call begins: with the client that the caller passes, or with the default client.
 *
 * The default client is used by calls that pass NULL. Each process has one, connected at the first such call and never
 * disconnected. A forked child has one of its own. Any thread. */
#pragma once

#include "client/api/client.h"

/* Connects it, if there is none yet; errors as gpumem_connect. */
int default_client_get(struct gpumem_client **ret_client);

/* NULL: there is none, or it belongs to the parent process. */
struct gpumem_client *default_client_present(void);

/* Begins a public call: NULL becomes the default client. GPUMEM_E_FORKED in a child of the process that connected; or
 * the error of the default client's connect. */
static ALWAYS_INLINE int client_enter(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                return default_client_get(client);
        return fork_guard_check(&(*client)->fork_guard);
}

/* The same for calls about existing memory, which do not connect: without a default client the process has no memory
 * of it, GPUMEM_E_NOT_OURS. */
static ALWAYS_INLINE int client_enter_present(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                *client = default_client_present();
        return *client ? fork_guard_check(&(*client)->fork_guard) : GPUMEM_E_NOT_OURS;
}

/* Begins a public call about a stream that other calls are to find again, as client_enter; identifies the stream.
 * GPUMEM_E_CAPTURES, GPUMEM_E_UNSUPPORTED (CU_STREAM_PER_THREAD); GPUMEM_E_NO_DRIVER; as stream_identify. */
int client_enter_stream(struct gpumem_client **client, void *stream, struct stream_key *ret_key);

/* Begins a public call about a pool, as client_enter, which gpumem_alloc would name by kind and place. Makes marks as
 * client_settle_marks does. Errors as gpumem_get_stats. */
int client_find_pool(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct pool **ret_pool);
