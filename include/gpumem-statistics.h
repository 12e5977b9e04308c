/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-statistics.h - the part of gpumem.h that tells what a client holds, and what happens to it */
#ifndef GPUMEM_STATISTICS_H
#define GPUMEM_STATISTICS_H

#ifndef GPUMEM_H
#error "include <gpumem.h>, which includes this part of it"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* gpumem-statistics(3): what a client holds, what a pointer is, and counts by tag
 *
 * Statistics are of one pool: a device by its CUDA ordinal, or a NUMA node's pinned memory. GPUMEM_NEAREST is a place
 * as in gpumem_request; for devices it is that of the current context. */

/* What this client holds, in bytes: n_requested <= n_allocated <= n_reserved, and
 * n_reserved = n_allocated + n_inactive_split + n_cached + the rest of the blocks of shareable and registered
 * allocations, which no other allocation can have. Peaks are since the client began, or since gpumem_reset_peaks. */
struct gpumem_stats {
        size_t struct_size;
        uint64_t n_requested_bytes;
        uint64_t n_requested_peak_bytes;
        uint64_t n_allocated_bytes; /* requests rounded up to 512 */
        uint64_t n_allocated_peak_bytes;
        uint64_t n_reserved_bytes; /* blocks leased from the daemon */
        uint64_t n_reserved_peak_bytes;
        uint64_t n_hits;   /* allocations served without a message to the daemon */
        uint64_t n_misses; /* the other allocations */
        uint64_t n_blocks;
        uint64_t n_splits; /* of free pieces of memory, by allocations, in streams that are known */
        uint64_t n_merges; /* of free pieces, by frees */
        /* Free: what is reserved and not allocated, without the rest of blocks of shareable and registered allocations.
         * Some of it is in blocks that are cached here: nothing uses them, and the daemon may take them at any time.
         * gpumemctl calls these IDLE; what it calls CACHED is in no lease. The rest, inactive_split, is in blocks that
         * streams have. */
        uint64_t n_free_bytes;
        uint64_t n_inactive_split_bytes;
        uint64_t n_cached_bytes;
        uint64_t n_cached_blocks;
        uint64_t
                n_largest_free_bytes; /* the largest piece of free memory; with more than 512 pieces of about its
                                        * size in a stream it may be up to a sixteenth too small */
        uint64_t
                n_free_extents; /* pieces of free memory; not those kept for many small allocations */
        double fragmentation;   /* 1 - largest_free / free; 0 if nothing is free */
        uint64_t n_live;        /* allocations */
        uint64_t n_allocations;       /* ever: n_hits + n_misses */
        uint64_t n_frees;             /* ever */
        uint64_t n_limit_bytes;       /* of gpumem_set_limit, or GPUMEM_NO_LIMIT */
        uint64_t n_cache_limit_bytes; /* of gpumem_set_cache_size, or GPUMEM_NO_LIMIT */
};

/* Reads the statistics of one pool. It sends no message. It delays a thread that allocates only while it
 * counts the memory of that thread's stream. The time grows with the streams, not with the allocations. Errors:
 * GPUMEM_E_BAD_REQUEST (an unknown kind), _NO_POOL, _NO_CONTEXT and _NO_DRIVER (GPUMEM_DEVICE with GPUMEM_NEAREST),
 * _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_get_stats(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                                struct gpumem_stats *ret_stats);

/* Resets this client's peak counters in one pool to the current values. Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_reset_peaks(struct gpumem_client *client, enum gpumem_kind kind,
                                  int32_t place);

/* Reads the statistics of one pool as named values. It writes at most n_room names and values, and sets *ret_n to the
 * number that exists; n_room may be 0. Names are always valid; a later version may have more. They are those of the
 * whole numbers of gpumem_stats without n_, such as "requested_peak_bytes". "pressures", "refusals" and "revocations"
 * count events of the client. The last is "available_bytes": what the client can still get from the pool within its own
 * limit. It is the sum of unused bytes in its blocks, of what the daemon caches, and of what the daemon may take from
 * the driver. It leaves out quotas of the tenant. The call asks the daemon for it if there is room, and omits it if the
 * daemon does not say. Errors: as gpumem_get_stats. */
GPUMEM_API int gpumem_get_figures(struct gpumem_client *client, enum gpumem_kind kind,
                                  int32_t place, const char **ret_names, uint64_t *ret_values,
                                  size_t n_room, size_t *ret_n);

/* Waits until period_ms are over, or until the client notes an event (gpumem-events(3)), and reads the statistics then:
 * a monitor's loop, on a thread of the program's. It holds up no other thread. It returns at once if an event
 * came after the previous wait had ended. gpumem_monitor_wake is such an event, after which all waits return 0. Errors, before the wait if they hold already: as gpumem_get_stats. */
GPUMEM_API int gpumem_monitor_wait(struct gpumem_client *client, enum gpumem_kind kind,
                                   int32_t place, uint32_t period_ms,
                                   struct gpumem_stats *ret_stats);
GPUMEM_API void gpumem_monitor_wake(struct gpumem_client *client);

/* Returns how often memory was short: the number of GPUMEM_EVENT_PRESSURE of this client, reported or not. A program
 * that keeps memory of its own can poll it, and release some when it has grown. 0 without a client, and in a forked
 * child. */
GPUMEM_API uint64_t gpumem_pressure(struct gpumem_client *client);

#define GPUMEM_TAG_BYTES 64 /* a tag's name with its NUL, at most */

/* Counts the calling thread's allocations of this client under `tag` from now on; NULL: under no tag. They count there
 * until any thread frees them. A thread has one tag, of the client that set it last. Once a thread has set a tag, calls
 * of all threads take some 0.1 us longer. Tags last until gpumem_disconnect.
 * Errors: GPUMEM_E_BAD_REQUEST (an empty tag, or one of GPUMEM_TAG_BYTES or more), _TOO_MANY (256 tags), _FORKED,
 * -ENOMEM. */
GPUMEM_API int gpumem_set_tag(struct gpumem_client *client, const char *tag);

struct gpumem_tag_stats {
        size_t struct_size;
        uint64_t n_live; /* allocations */
        uint64_t n_requested_bytes;
        uint64_t n_requested_peak_bytes;
        uint64_t n_allocations; /* ever */
        uint64_t n_frees;       /* ever */
};

/* Reads what counts under `tag`. Errors: GPUMEM_E_NO_TAG, _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_get_tag_stats(struct gpumem_client *client, const char *tag,
                                    struct gpumem_tag_stats *ret_stats);

struct gpumem_info {
        size_t struct_size;
        enum gpumem_kind kind;
        int32_t place; /* device: CUDA ordinal in this process; pinned: NUMA node */
        void *base;    /* the allocation's first byte */
        uint64_t n_requested_bytes;
        uint64_t n_allocated_bytes; /* requested, rounded up to 512; the block, if it is shared */
        void *block_base;           /* the block that it was cut from */
        uint64_t n_block_bytes;
        uint64_t block; /* the block's number, as gpumemctl blocks shows it */
        /* Pinned memory only: 1 if the driver knows it, so that the device reads it at full speed and copies need no
         * staging. 0 if it was allocated without a context. It is 1 also for memory that the driver made (gpumemd
         * --pinned-backing vmm). */
        uint32_t is_registered;
        uint32_t is_attached; /* another process's, from gpumem_attach */
        uint32_t is_held;     /* it was leased from a daemon that has ended since */
};

/* Describes the allocation that contains `pointer`, which may point to its start or inside it. Errors:
 * GPUMEM_E_NOT_OURS (no live allocation of this client), _FORKED, -EINVAL (struct_size). */
GPUMEM_API int gpumem_describe(struct gpumem_client *client, const void *pointer,
                               struct gpumem_info *ret_info);

/* gpumem-events(3): a callback for memory pressure, refusals and the daemon's state
 *
 * A client reports events to one callback, at most one event of a kind per second. The library's own threads never run
 * the callback. A thread that notices an event in a call runs the callback before the call returns, and holds no lock
 * meanwhile. An event that a thread of the library notices is reported by the next such call. So several threads may
 * run the callback at once. The library reports the end of a daemon when a call needs the daemon.
 * The callback may call every function but two. gpumem_set_event_callback returns an error there, and gpumem_disconnect
 * does nothing. Later calls report what happens in such calls. */

enum gpumem_event_kind {
        /* A pool had no room for the blocks that the library wanted. The library returns what it keeps unused, and
         * requests exactly what it needs. memory, place, n_bytes: of the allocation. With n_bytes 0: another process
         * lacks memory of that pool, of which this one holds some. What is freed soon may serve it. gpumemd tells at
         * most 16 processes for a request, those that hold most first. */
        GPUMEM_EVENT_PRESSURE = 1,
        /* gpumem_alloc was refused; result, memory, place, n_bytes, text as in gpumem_refusal. */
        GPUMEM_EVENT_REFUSED = 2,
        /* The daemon took idle blocks of this process for others: n_bytes in the pool of memory and place. It never
         * takes allocated memory. */
        GPUMEM_EVENT_REVOKED = 3,
        /* The connection has ended. Allocations stay; the next one that needs a block connects again. */
        GPUMEM_EVENT_DAEMON_LOST = 4,
        GPUMEM_EVENT_DAEMON_BACK = 5,
        /* The driver or NVML reports the device of this pool as lost. The daemon refuses requests there until it
         * recovers, and does not serve its old memory again. memory, place. */
        GPUMEM_EVENT_DEVICE_LOST = 6,
        GPUMEM_EVENT_DEVICE_BACK = 7,
};

/* Fields that an event does not use are 0. */
struct gpumem_event {
        size_t struct_size; /* set by the library; later versions may have more fields */
        enum gpumem_event_kind kind;
        int result;
        enum gpumem_kind memory;
        int32_t place;
        uint64_t n_bytes;
        uint32_t n_suppressed; /* events of this kind since the last one that were not reported */
        char text[GPUMEM_TEXT_BYTES];
};

typedef void gpumem_event_callback(const struct gpumem_event *event, void *argument);

/* Sets the callback, with an argument for it; NULL: events are not reported. The event is valid during the callback
 * only. When this returns, the previous callback does not run and never runs again. Errors: GPUMEM_E_IN_CALLBACK,
 * _FORKED. */
GPUMEM_API int gpumem_set_event_callback(struct gpumem_client *client,
                                         gpumem_event_callback *callback, void *argument);

#ifdef __cplusplus
}
#endif

#endif
