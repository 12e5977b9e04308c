/* SPDX-License-Identifier: Apache-2.0 */
/* A client as the files with the public functions see it. Any thread; results of these functions live as long as the
 * client. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "client/capture/graph_memory.h"
#include "client/capture/capture_frees.h"
#include "client/connection/reconnect.h"
#include "client/api/primary_context.h"
#include "client/pool/stream_handles.h"
#include "client/pool/pool.h"
#include "client/pool/recent_heaps.h"
#include "client/runtime/events.h"
#include "client/runtime/fork_guard.h"
#include "client/runtime/service_thread.h"
#include "client/streams/deferred_frees.h"
#include "client/streams/stream_uses.h"
#include "client/streams/streams.h"
#include "client/watch/debug.h"
#include "client/watch/tags.h"
#include "driver/capture.h"
#include "gpumem.h"

/* What each allocation and free reads is in the first two lines, and in that of two functions of `cuda`. The alignment
 * keeps these in one page. */
struct gpumem_client {
        _Alignas(1024) struct fork_guard fork_guard;
        struct after_call after_call;
        _Atomic uint32_t n_pools;
        struct pool *pools; /* room for all that may ever be added */
        bool has_cuda;
        struct recent_heaps recent;
        struct capture_frees capture_frees;
        _Alignas(64) struct cuda cuda;
        uint64_t number;
        struct events events;
        struct reconnector reconnector;
        struct service_thread service;
        struct streams streams;
        _Atomic bool is_urgent; /* the daemon asks that idle leases be marked at once */
        struct stream_uses uses;
        struct deferred_frees deferred;
        struct graph_memory graph_memory;
        _Atomic uint64_t n_cache_bytes; /* of empty blocks, a pool, at most */
        struct stream_handles handles;
        double fraction; /* the part of each device's memory that GPUMEM_MEMORY_FRACTION allows */
        uint64_t n_limit_bytes; /* of GPUMEM_MEMORY_LIMIT, on each device */
        struct debug debug;
        struct tags tags;
        struct primary_contexts primaries;
        _Atomic uint64_t reported_ns;  /* when the daemon was last told of a refusal; 0: never */
        bool is_default;               /* the process's own, which is never disconnected */
        struct gpumem_client *parents; /* the parent process's default client, kept as it is */
};

/* The pools that were seen so far, from 0 on; NULL after the last. */
struct pool *client_pool(struct gpumem_client *client, uint32_t index);

/* The pool with this number on that connection; NULL: there is none, or the client has left the connection. */
struct pool *client_pool_on(struct gpumem_client *client, uint64_t connection, uint32_t id);

/* The pool of a device of this process, or of a NUMA node; NULL: there is none. */
struct pool *client_pool_at(struct gpumem_client *client, enum gpumem_kind kind, int32_t place);

struct reconnector *client_reconnector(struct gpumem_client *client);
struct events *client_events(struct gpumem_client *client);

/* NULL: no driver was loaded. */
const struct cuda *client_cuda(const struct gpumem_client *client);

/* The thread's driver calls from here on invalidate no capture; see driver/capture.h. */
struct capture_spared client_spare_captures(const struct gpumem_client *client);

/* Never the same for two clients of a process, whether one after another or at the same time. */
uint64_t client_number(const struct gpumem_client *client);

/* Checks the size of a caller's struct, of any version, that the library fills up to that size. -EINVAL: it is too
 * short, or longer than ours. */
int check_struct(size_t n_their_bytes, size_t n_our_bytes);

/* Copies a caller's struct, of any version, into ours; fields that it lacks are 0. -EINVAL: it is too short. -E2BIG:
 * it sets fields that this version does not know. */
int take_struct(const void *theirs, size_t n_their_bytes, void *ours, size_t n_our_bytes);

/* Does the service thread's work if there is none. */
void client_look(struct gpumem_client *client);

/* The program wants to hear of events: the service thread reads the daemon's notices from now on. Without one, this
 * reads those that have come. */
void client_listen(struct gpumem_client *client);

/* Completes frees that were deferred for other streams, if their work is over. `wait`: waits for it, and completes
 * all. */
void client_end_deferred(struct gpumem_client *client, bool wait);

/* Completes frees in captures of `stream` that are over; the stream is alive. client_free_captured_of: it captures
 * nothing, and `key` is known, so that the driver is not asked for it. */
void client_free_captured(struct gpumem_client *client, void *stream);
void client_free_captured_of(struct gpumem_client *client, void *stream,
                             const struct stream_key *key);

/* Waits for the work of all memory that was freed and cannot be used again yet, also in captures whose graphs are
 * gone. */
void client_wait_for_freed(struct gpumem_client *client);

/* Makes the marks that a capture held up, if it has ended (streams.h and deferred_frees.h), and those of frees that are
 * not recorded yet (idle_marking.h). */
COLD void client_catch_up(struct gpumem_client *client);

/* Makes those of frees that are not recorded yet, also where no look has found them out. */
void client_record_all_frees(struct gpumem_client *client);

/* As client_catch_up. Then tells events. */
COLD void client_do_after_call(struct gpumem_client *client);

/* The same, for the last line of a hit: returns r. */
COLD int client_end_call(struct gpumem_client *client, int r);

/* Records earlier frees that did not know their stream, or were more than may be recorded at a time: `stream` is that
 * of the allocation at `pointer`, and is alive. */
COLD void client_record_frees(struct gpumem_client *client, const void *pointer, void *stream);

/* Called at the end of a public call, without locks. */
static inline void client_settle(struct gpumem_client *client)
{
        if (__builtin_expect(after_call_is_any(&client->after_call), 0))
                client_do_after_call(client);
}

/* The same in calls that hit: their code stays in one piece. */
static ALWAYS_INLINE int client_settled(struct gpumem_client *client, int r)
{
        if (__builtin_expect(after_call_is_any(&client->after_call), 0))
                return client_end_call(client, r);
        return r;
}

/* The same for calls that tell no events. */
static inline void client_settle_marks(struct gpumem_client *client)
{
        if (__builtin_expect(after_call_is_any(&client->after_call), 0))
                client_catch_up(client);
}

/* Was it freed, and is its free deferred? */
bool client_has_deferred(struct gpumem_client *client, const void *pointer);

/* gpumem_free and gpumem_free_sync of a pointer that is in no heap. Errors as these; GPUMEM_E_NOT_OURS,
 * GPUMEM_E_ATTACHED. */
int client_free_shared(struct gpumem_client *client, const void *pointer, void *stream);
int client_free_shared_sync(struct gpumem_client *client, const void *pointer);
