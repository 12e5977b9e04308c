#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "client/space.h"

/* How often the daemon may be faster with a block. */
#define TRIES_MAX 64

#define BLOCK_UNITS ((uint32_t)(HEAP_BLOCK_UNIT / HEAP_UNIT))

static struct heap_block *block_at(const struct space *space, uint64_t address)
{
        return CONTAINER_OF(arena_find(space->arena, address), struct heap_block, at);
}

static bool is_settled(const struct heap *heap, const struct heap_block *block)
{
        return block->epoch < heap->n_settled_epochs && block->n_earlier < heap->n_settled_adds &&
               shelf_may_have(block);
}

/* The first settled block with a word, or NULL. The caller has the heap's lock. */
static struct heap_block *find_settled(const struct heap *heap)
{
        uint32_t index = 0;

        while ((index = holes_next_large(&heap->holes, BLOCK_UNITS, index))) {
                const struct piece *hole = holes_at(&heap->holes, index);
                struct heap_block *block = heap_first_covered(heap, hole);

                while (block && !is_settled(heap, block))
                        block = heap_next_covered(heap, hole, block);
                if (block)
                        return block;
        }
        return NULL;
}

/* 1: there was one that the shelf cannot have, and that is not met again. */
static int shelve_one(struct space *space, struct heap *heap)
{
        struct heap_block *block;
        int r = -ENOENT;

        lock_take(&heap->lock);
        block = find_settled(heap);
        if (block)
                r = shelf_put(&space->shelf, block);
        lock_drop(&heap->lock);
        return r;
}

bool space_shelve(struct space *space)
{
        struct space_heap *heap;
        bool shelved = false;

        TAILQ_FOREACH (heap, &space->heaps, in_space) {
                int r;

                while ((r = shelve_one(space, &heap->heap)) >= 0)
                        shelved = shelved || r == 0;
        }
        return shelved;
}

static bool settle(struct heap *heap)
{
        bool more = heap->n_settled_epochs < heap->n_done_epochs ||
                    heap->n_settled_adds < heap->n_adds;

        heap->n_settled_epochs = heap->n_done_epochs;
        heap->n_settled_adds = heap->n_adds;
        return more;
}

bool space_settle(struct space *space)
{
        struct space_heap *heap;
        bool more = false;

        TAILQ_FOREACH (heap, &space->heaps, in_space) {
                lock_take(&heap->heap.lock);
                more = settle(&heap->heap) || more;
                lock_drop(&heap->heap.lock);
        }
        return more;
}

static uint64_t hole_bytes(const struct heap *heap, uint32_t piece)
{
        const struct piece *hole = holes_at(&heap->holes, piece);

        return hole->state == PIECE_HOLE ? hole->n_units * HEAP_UNIT : 0;
}

/* Of the heap's hole that ends, or begins, at the address. */
static uint64_t bytes_below(const struct space *space, const struct heap *heap, uint64_t address)
{
        const struct heap_block *block = block_at(space, address - 1);

        if (heap->runs == HEAP_SPLIT || !block || block->heap != heap || !block->edges.after)
                return 0;
        return hole_bytes(heap, holes_at(&heap->holes, block->edges.after)->before);
}

static uint64_t bytes_above(const struct space *space, const struct heap *heap, uint64_t address)
{
        const struct heap_block *block = block_at(space, address);

        if (heap->runs == HEAP_SPLIT || !block || block->heap != heap || !block->edges.before)
                return 0;
        return hole_bytes(heap, holes_at(&heap->holes, block->edges.before)->after);
}

/* Shelved blocks that follow each other, and what they touch of the heap's own holes. */
struct stretch {
        uint64_t start, end;
        uint64_t n_below_bytes, n_above_bytes;
};

static uint64_t stretch_bytes(const struct stretch *stretch)
{
        return stretch->end - stretch->start + stretch->n_below_bytes + stretch->n_above_bytes;
}

/* The smallest one that holds n_bytes. */
static bool find_stretch(struct space *space, struct heap *heap, uint64_t n_bytes,
                         struct stretch *ret_stretch)
{
        const struct heap *shelf = &space->shelf.heap;
        struct stretch best = {.start = 0};
        uint32_t hole = 0;

        lock_take(&heap->lock);
        while ((hole = holes_next_large(&shelf->holes, 1, hole))) {
                const struct piece *piece = holes_at(&shelf->holes, hole);
                struct stretch stretch = {
                        .start = heap_address_of(shelf, piece->start),
                        .end = heap_address_of(shelf, piece->start + piece->n_units)};

                stretch.n_below_bytes = bytes_below(space, heap, stretch.start);
                stretch.n_above_bytes = bytes_above(space, heap, stretch.end);
                if (stretch_bytes(&stretch) >= n_bytes &&
                    (!best.start || stretch_bytes(&stretch) < stretch_bytes(&best)))
                        best = stretch;
        }
        lock_drop(&heap->lock);
        *ret_stretch = best;
        return best.start != 0;
}

/* 1: the daemon was faster. */
static int unshelve_one(struct space *space, struct heap *heap, struct heap_block *block)
{
        int r;

        lock_take(&heap->lock);
        r = heap_reserve(heap);
        if (!r)
                r = shelf_take(&space->shelf, block);
        if (!r)
                (void)heap_add_block(heap, block);
        lock_drop(&heap->lock);
        return r;
}

/* From the end on where the heap's own hole is larger, and no more blocks than it takes. */
static int unshelve(struct space *space, struct heap *heap, struct stretch rest, uint64_t n_bytes)
{
        bool is_from_above = rest.n_above_bytes > rest.n_below_bytes;
        uint64_t n_got = is_from_above ? rest.n_above_bytes : rest.n_below_bytes;
        int r = 0;

        while (!r && rest.start < rest.end && n_got < n_bytes) {
                struct heap_block *block = block_at(space,
                                                    is_from_above ? rest.end - 1 : rest.start);

                if (is_from_above)
                        rest.end = block->at.start;
                else
                        rest.start += block->at.n_bytes;
                n_got += block->at.n_bytes;
                r = unshelve_one(space, heap, block);
        }
        return r;
}

/* Where the daemon was faster with one it may have been so with many: they are not tried one by one. */
bool space_unshelve(struct space *space, struct space_heap *heap, uint64_t n_bytes)
{
        struct stretch stretch;
        int r = 1;

        for (unsigned i = 0; r == 1 && i < TRIES_MAX; i++) {
                if (!find_stretch(space, &heap->heap, n_bytes, &stretch))
                        return false;
                r = unshelve(space, &heap->heap, stretch, n_bytes);
                if (r == 1)
                        shelf_sweep(&space->shelf);
        }
        return r == 0;
}
