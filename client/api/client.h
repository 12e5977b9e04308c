/* SPDX-License-Identifier: Apache-2.0 */
/* A client as the files that hold public functions see it. Any thread; what is given here lives as long as the
 * client. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "client/capture/captures.h"
#include "client/capture/deferred_free.h"
#include "client/connection/reconnect.h"
#include "client/api/primary_context.h"
#include "client/pool/pool.h"
#include "client/runtime/events.h"
#include "client/runtime/fork_guard.h"
#include "client/runtime/service_thread.h"
#include "client/streams/stream_uses.h"
#include "client/streams/streams.h"
#include "client/watch/debug.h"
#include "client/watch/tags.h"
#include "driver/capture.h"
#include "gpumem.h"

/* A power of two: more streams than most programs use. */
#define RECENT_HEAPS 64

struct gpumem_client {
        uint64_t number;
        struct fork_guard fork_guard;
        struct after_call after_call;
        struct events events;
        struct reconnector reconnector;
        struct service_thread service;
        struct streams streams;
        _Atomic bool is_urgent; /* the daemon asks that idle leases be marked at once */
        struct stream_uses uses;
        struct captures captures;
        struct deferred_frees deferred;
        struct cuda cuda;
        bool has_cuda;
        uint64_t n_cache_bytes;                             /* of empty blocks, a pool, at most */
        _Atomic(struct stream_heap *) recent[RECENT_HEAPS]; /* by stream; device memory */
        double fraction;    /* of each device's memory that GPUMEM_MEMORY_FRACTION allows */
        struct pool *pools; /* room for all that may ever be seen */
        _Atomic uint32_t n_pools;
        struct debug debug;
        struct tags tags;
        struct primary_contexts primaries;
        bool is_default;               /* the process's own, which is never disconnected */
        struct gpumem_client *parents; /* and the parent process's, which is kept as it is */
};

/* The pools that were seen so far, from 0 on; NULL after the last. */
struct pool *client_pool(struct gpumem_client *client, uint32_t index);

/* The one that has this number on that connection; NULL when there is none, or the connection has been left since. */
struct pool *client_pool_on(struct gpumem_client *client, uint64_t connection, uint32_t id);

/* That of a device of this process, or of a NUMA node; NULL when there is none. */
struct pool *client_pool_at(struct gpumem_client *client, enum gpumem_kind kind, int32_t place);

/* As gpumem_alloc reads kind and place. Errors as gpumem_get_stats. */
int client_find_pool(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct pool **ret_pool);

struct reconnector *client_reconnector(struct gpumem_client *client);
struct events *client_events(struct gpumem_client *client);

/* NULL: no driver was loaded. */
const struct cuda *client_cuda(const struct gpumem_client *client);

/* What the thread calls from here on spoils no capture; see driver/capture.h. */
struct capture_spared client_spare_captures(const struct gpumem_client *client);

/* Never the same for two clients of a process, one after another or at once. */
uint64_t client_number(const struct gpumem_client *client);

/* A struct of a caller's version is filled from ours: as many bytes as it has. -EINVAL when it is too short to be one,
 * or longer than ours. */
int check_struct(size_t n_their_bytes, size_t n_our_bytes);

/* A caller's struct of any version, as ours: fields that it lacks are 0. -EINVAL when it is too short to be one, -E2BIG
 * when it says something that is not known here. */
int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes);

/* What the service thread does, for when there is none. */
void client_look(struct gpumem_client *client);

/* The stream's next allocation looks for its heap anew. */
void client_forget_recent(struct gpumem_client *client, const struct stream_mark *mark);

/* Frees what was freed while other streams used it, as far as these have come; `wait`: all of it, once they have. */
void client_end_deferred(struct gpumem_client *client, bool wait);

/* Frees what was freed in captures of `stream`, which is alive, that are over. */
void client_free_captured(struct gpumem_client *client, void *stream);

/* Waits for the work of all that was freed and is not free yet, also in captures whose graphs are gone. */
void client_wait_for_freed(struct gpumem_client *client);

/* Does what a capture held up, now that it may have ended: marks of streams.h and stream_uses.h. */
void client_catch_up(struct gpumem_client *client);

/* Records frees that had no stream at hand: `stream`, which is alive, is that of the allocation at `pointer`. */
void client_record_frees(struct gpumem_client *client, const void *pointer, void *stream);

/* At the end of a public call, without locks. */
static inline void client_settle(struct gpumem_client *client)
{
        if (__builtin_expect(after_call_is_any(&client->after_call), 0)) {
                client_catch_up(client);
                events_tell(&client->events);
        }
}

/* It was freed, and its free is not over. */
bool client_has_deferred(struct gpumem_client *client, const void *pointer);

/* gpumem_free and gpumem_free_sync of a pointer that is in no heap. GPUMEM_E_NOT_OURS, GPUMEM_E_ATTACHED, or as
 * these. */
int client_free_shared(struct gpumem_client *client, const void *pointer, void *stream);
int client_free_shared_sync(struct gpumem_client *client, const void *pointer);
