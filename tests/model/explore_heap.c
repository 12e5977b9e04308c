/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/explore_heap.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define HEAP_BYTES (256 * KIB)
#define UNIT       16
#define N_CLASSES  1024 /* of pieces of 1, 2, ... units */

/* What is written over freed memory, so that who reads it notices. */
#define FREED 0xdf

struct extent {
        size_t n_units;
        struct extent *next; /* while it is free */
};

struct heap {
        size_t n_used_bytes;
        struct extent *free[N_CLASSES];
};

static _Alignas(UNIT) unsigned char bytes[HEAP_BYTES];
static unsigned char copies[N_COPIES][HEAP_BYTES];
static bool inside;

static struct heap *heap_here(void)
{
        return (struct heap *)(void *)bytes;
}

void explore_heap_clear(void)
{
        memset(bytes, 0, sizeof(struct heap));
        heap_here()->n_used_bytes = (sizeof(struct heap) + UNIT - 1) / UNIT * UNIT;
}

void explore_heap_enter(void)
{
        assert(!inside);
        inside = true;
}

void explore_heap_leave(void)
{
        assert(inside);
        inside = false;
}

void explore_heap_save(enum explore_copy copy)
{
        memcpy(copies[copy], bytes, heap_here()->n_used_bytes);
}

void explore_heap_restore(enum explore_copy copy)
{
        memcpy(bytes, copies[copy], ((struct heap *)(void *)copies[copy])->n_used_bytes);
}

static void *take(size_t n_bytes)
{
        struct heap *heap = heap_here();
        size_t n_units = (n_bytes + UNIT - 1) / UNIT;
        struct extent *extent;

        assert(n_units < N_CLASSES);
        extent = heap->free[n_units];
        if (extent) {
                heap->free[n_units] = extent->next;
        } else {
                assert(heap->n_used_bytes + (n_units + 1) * UNIT <= HEAP_BYTES);
                extent = (struct extent *)(void *)(bytes + heap->n_used_bytes);
                heap->n_used_bytes += (n_units + 1) * UNIT;
        }
        extent->n_units = n_units;
        extent->next = NULL;
        return (unsigned char *)extent + UNIT;
}

static struct extent *extent_of(void *pointer)
{
        return (struct extent *)(void *)((unsigned char *)pointer - UNIT);
}

static bool is_ours(const void *pointer)
{
        return (uintptr_t)pointer - (uintptr_t)bytes < HEAP_BYTES;
}

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *pointer, size_t n_bytes);
void __real_free(void *pointer);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *pointer, size_t n_bytes);
void __wrap_free(void *pointer);

void *__wrap_malloc(size_t n_bytes)
{
        return inside ? take(n_bytes) : __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
        return inside ? memset(take(n * n_bytes), 0, n * n_bytes) : __real_calloc(n, n_bytes);
}

void __wrap_free(void *pointer)
{
        struct extent *extent;

        if (!is_ours(pointer)) {
                __real_free(pointer);
                return;
        }
        extent = extent_of(pointer);
        memset(pointer, FREED, extent->n_units * UNIT);
        extent->next = heap_here()->free[extent->n_units];
        heap_here()->free[extent->n_units] = extent;
}

void *__wrap_realloc(void *pointer, size_t n_bytes)
{
        size_t n_old_bytes;
        void *larger;

        if (!inside)
                return __real_realloc(pointer, n_bytes);
        larger = take(n_bytes);
        if (!pointer)
                return larger;
        n_old_bytes = extent_of(pointer)->n_units * UNIT;
        memcpy(larger, pointer, n_old_bytes < n_bytes ? n_old_bytes : n_bytes);
        __wrap_free(pointer);
        return larger;
}
