#include "client/arena.h"

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "client/holes.h"

struct granule {
        void *block;
        struct piece *piece; /* in the first granule of a range */
};

struct arena {
        uint64_t start;
        uint64_t n_bytes;
        struct holes holes;
        struct piece *first;
        struct granule *granules; /* zero pages until used */
};

int arena_new(uint64_t start, uint64_t n_bytes, struct arena **ret_arena)
{
        struct arena *arena = calloc(1, sizeof(*arena));

        if (!arena)
                return -ENOMEM;
        arena->first = calloc(1, sizeof(*arena->first));
        arena->granules = calloc(n_bytes / ARENA_GRANULE, sizeof(*arena->granules));
        if (!arena->first || !arena->granules) {
                free(arena->first);
                free(arena->granules);
                free(arena);
                return -ENOMEM;
        }
        arena->start = start;
        arena->n_bytes = n_bytes;
        holes_init(&arena->holes, ARENA_GRANULE);
        holes_add(&arena->holes, arena->first, start, n_bytes);
        *ret_arena = arena;
        return 0;
}

struct arena *arena_free(struct arena *arena)
{
        struct piece *piece, *next;

        if (!arena)
                return NULL;
        for (piece = arena->first; piece; piece = next) {
                next = piece->after;
                free(piece);
        }
        free(arena->granules);
        free(arena);
        return NULL;
}

static struct granule *granule_at(const struct arena *arena, uint64_t address)
{
        return &arena->granules[(address - arena->start) / ARENA_GRANULE];
}

int arena_take(struct arena *arena, uint64_t n_bytes, void *block, uint64_t *ret_address)
{
        struct piece *piece = holes_find(&arena->holes, n_bytes);
        struct granule *granules;
        struct piece *rest = NULL;

        if (!piece)
                return -ENOMEM;
        if (piece->n_bytes > n_bytes) {
                rest = calloc(1, sizeof(*rest));
                if (!rest)
                        return -ENOMEM;
        }
        holes_take(&arena->holes, piece, n_bytes, rest);
        granules = granule_at(arena, piece->start);
        granules->piece = piece;
        for (uint64_t i = 0; i < n_bytes / ARENA_GRANULE; i++)
                granules[i].block = block;
        *ret_address = piece->start;
        return 0;
}

void arena_give(struct arena *arena, uint64_t address)
{
        struct granule *granules = granule_at(arena, address);
        struct piece *piece = granules->piece;
        struct holes_used_up used_up;

        assert(piece && piece->start == address);
        for (uint64_t i = 0; i < piece->n_bytes / ARENA_GRANULE; i++)
                granules[i].block = NULL;
        granules->piece = NULL;
        used_up = holes_give(&arena->holes, piece);
        for (unsigned i = 0; i < used_up.n; i++)
                free(used_up.pieces[i]);
}

void *arena_find(const struct arena *arena, uint64_t address)
{
        if (address < arena->start || address - arena->start >= arena->n_bytes)
                return NULL;
        return granule_at(arena, address)->block;
}
