/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations in a pool (pool_state.h): a pool begins and ends, memory comes from the heap of a stream and goes back to
 * it, and pointers find what they are of. Any thread. */
#pragma once

#include "base/err.h"
#include "client/blocks/pool_state.h"
#include "client/pool/stream_heaps.h"

/* Not met yet. Not to be moved afterwards. n_cache_bytes: of empty blocks at most. */
void pool_init(struct pool *pool, const struct pool_row *row, const struct memory *memory,
               struct reconnector *reconnector, struct service_thread *service,
               struct streams *streams, uint64_t n_cache_bytes);

/* Unmaps and returns every block, empty or not. GPU work on them is over. */
void pool_deinit(struct pool *pool);

/* A hit, from a heap that may be another stream's by now. GPUMEM_E_REFUSED: it is, or no hole holds n_bytes. */
int pool_hit(struct stream_heap *heap, const struct stream_mark *mark, uint64_t n_bytes,
             void **ret_pointer);

/* GPUMEM_E_TOO_LARGE, with a text as the thread's last error: the whole pool has not so much. */
int pool_check_size(const struct pool *pool, uint64_t n_bytes);

/* Memory in the stream's order, whose heap is `*ret_heap`; see gpumem_alloc. */
int pool_alloc(struct pool *pool, const struct pool_request *request, struct stream_heap **ret_heap,
               void **ret_pointer);

/* Of a result: it is for want of memory. */
bool pool_is_refusal(int r);

/* An event: there is no room for so much. */
void pool_note_pressure(struct pool *pool, uint64_t n_bytes);

/* The block that a pointer lies in; NULL: none of this pool's. It says nothing about whether anything is allocated
 * there. */
struct heap_block *pool_block_of(const struct pool *pool, const void *pointer);

/* The heap that the block is in; NULL: it is one allocation, or on the idle list. */
struct stream_heap *pool_heap_of_block(const struct pool *pool, const struct heap_block *block);

/* The heap that a pointer's block is in, or NULL. */
struct stream_heap *pool_heap_of(const struct pool *pool, const void *pointer);

/* In whose order the allocation at `pointer` in that heap is. One that was made without a context and registered later
 * may be in the hands of any stream: it has the context of the registration, and an id that is no stream's. */
struct stream_key pool_order_of(const struct stream_heap *heap, const void *pointer);

/* An allocation starts there, in a heap of this pool. GPUMEM_E_NOT_OURS. */
int pool_find(struct pool *pool, const void *pointer);

/* What an allocation is, from any address in it; struct_size is left alone. GPUMEM_E_NOT_OURS. */
int pool_describe(struct pool *pool, const void *pointer, struct gpumem_info *ret_info);

/* Ends an allocation whose last use is ordered before later work of its stream, or is over. POOL_LOOK: it is time for
 * trim_look. GPUMEM_E_NOT_OURS. */
#define POOL_LOOK 1000
enum pool_use { POOL_USE_ORDERED, POOL_USE_OVER };
int pool_give(struct stream_heap *heap, const void *pointer, enum pool_use use);

void pool_reset_peaks(struct pool *pool);

/* Cuts and counts. As heap_alloc. */
NOINLINE int pool_cut(struct stream_heap *heap, uint64_t n_bytes, enum counter_event event,
                      void **ret_pointer);

/* The pinned pool that the daemon has on the node of the current context's device; without a context, or where the
 * driver does not know, of the CPU that runs the thread. Any other pinned pool when that node has none; NULL: it has no
 * pinned pool. `cuda` may be NULL. */
struct pool *pool_nearest_pinned(struct pool *pools, uint32_t n_pools, const struct cuda *cuda);
