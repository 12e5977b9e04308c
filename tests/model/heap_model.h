/* SPDX-License-Identifier: Apache-2.0 */
/* What heaps of one set and its idle list hold, in sorted arrays that are searched from end to end, and
 * the same operations on the heaps and on these arrays. What the heaps answer is foretold or, where the
 * choice is theirs, judged. The model is the daemon, too: it has the words of all leases. One thread. */
#pragma once

#include <check.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/reserve/heap_set.h"
#include "proto/board.h"
#include "tests/random.h"

#define MODEL_START      (UINT64_C(1) << 44)
#define MODEL_N_GRANULES 512
#define MODEL_N_HEAPS    4
#define MODEL_N_RECORDS  160
#define MODEL_N_RANGES   320

struct model_range {
        uint64_t start, end;
        uint64_t n_requested_bytes; /* of an allocation */
        struct heap_block *record;  /* of a block */
        uint64_t n_place_bytes;     /* of a slab */
};

struct model_ranges {
        unsigned n;
        struct model_range at[MODEL_N_RANGES]; /* by address */
};

struct model_heap {
        struct set_heap in_set;
        struct model_ranges blocks, live, extents, slabs;
        uint32_t epoch, n_done_epochs, n_settled_epochs;
        uint64_t n_freed_bytes;
        uint64_t settled_at; /* by the model's clock */
        bool is_more_to_settle;
};

struct model {
        enum heap_runs runs;
        struct test_random random;
        uint64_t step;
        uint64_t now_us;
        struct arena *arena;
        struct heap_set heap_set;
        struct model_heap heaps[MODEL_N_HEAPS];
        struct heap_block records[MODEL_N_RECORDS];
        struct heap_block *unused[MODEL_N_RECORDS];
        unsigned n_unused;
        _Atomic uint64_t words[MODEL_N_RECORDS];
        uint64_t came_at[MODEL_N_RECORDS]; /* to the heap that has it */
        uint64_t clock;                    /* of what came and was settled */
        uint64_t n_leases;
        struct model_ranges idle_list, revoked; /* revoked: not unmapped yet */
        uint64_t n_put_idle, n_reused, n_revoked, n_slabs, n_planned, n_moved;
        uint64_t last_freed;
        /* The latest epoch in which any byte of a granule was freed, since it came to its heap. */
        uint32_t freed_in[MODEL_N_GRANULES];
};

/* ck_assert leaves a mark at each call, which costs more than a step. */
#define MODEL_EXPECT(model, condition)                                                           \
        do {                                                                                     \
                if (!(condition))                                                                \
                        ck_abort_msg("step %" PRIu64 ": not so: %s", (model)->step, #condition); \
        } while (0)

void model_init(struct model *model, enum heap_runs runs);
void model_deinit(struct model *model);

static inline struct heap *model_heap(struct model_heap *heap)
{
        return &heap->in_set.heap;
}

static inline uint64_t model_bytes(const struct model_range *range)
{
        return range->end - range->start;
}

static inline uint64_t model_rounded(uint64_t n_bytes, uint64_t unit)
{
        return (n_bytes + unit - 1) / unit * unit;
}

/* The range that the address is in, or NULL. */
const struct model_range *model_find(const struct model_ranges *ranges, uint64_t address);

/* Sum of all. */
uint64_t model_sum(const struct model_ranges *ranges);

/* Adds a range; takes the one with that start out. */
void model_insert(struct model *model, struct model_ranges *ranges, struct model_range range);
void model_erase(struct model *model, struct model_ranges *ranges, uint64_t start);

/* Memory of the heap's is a hole, merged with those that it touches; or, out of the middle of one, none any more. */
void model_add_free(struct model *model, struct model_heap *heap, uint64_t start, uint64_t end);
void model_cut_free(struct model *model, struct model_heap *heap, uint64_t start, uint64_t end);

/* A place of such a slab is free. */
bool model_has_place(const struct model_heap *heap, uint64_t n_place_bytes);

/* The heap has allocated there. If that is in a slab that it has made for it, the slab is no hole any more. */
void model_meet_slab(struct model *model, struct model_heap *heap, uint64_t address);

/* Nothing is live in the slab: it is a hole. */
void model_end_slab(struct model *model, struct model_heap *heap, uint64_t start);

/* The number that are live in it. */
unsigned model_count_in(const struct model_heap *heap, const struct model_range *slab);

/* The hole that covers the whole range, or NULL. */
const struct model_range *model_covering(const struct model_heap *heap,
                                         const struct model_range *range);

/* The first block of the heap that the hole covers, or NULL. */
const struct model_range *model_first_covered(const struct model_heap *heap,
                                              const struct model_range *free_extent);

/* No block of any heap is there, and it is in the arena. */
bool model_is_free(const struct model *model, uint64_t start, uint64_t n_bytes);

/* A new block, for both. */
void model_add_block(struct model *model, struct model_heap *heap, uint64_t start,
                     uint64_t n_bytes);

/* The heap has removed the block, which was in a hole: out of the arrays, and of the arena. */
void model_forget_block(struct model *model, struct model_heap *heap, struct heap_block *record);

/* The heaps have moved it. */
void model_move_block(struct model *model, struct model_heap *from, struct model_heap *to,
                      struct heap_block *record);

/* The word that it has, or had, on the board. */
static inline _Atomic uint64_t *model_word(struct model *model, const struct heap_block *record)
{
        return &model->words[record - model->records];
}

/* The idle list would get it back. */
static inline bool model_is_good(struct model *model, const struct heap_block *record)
{
        return record->word && board_is(model_word(model, record), record->lease, BOARD_IDLE);
}

/* Of those on the idle list. */
unsigned model_count_good(struct model *model);

/* The lease is neither idle nor revoked. */
void model_expect_busy(struct model *model, const struct heap_block *record);

/* What the heaps and the idle list have done with a block, or the client with one that was revoked. */
void model_put_block_idle(struct model *model, struct model_heap *heap, struct heap_block *record);
void model_reuse_block(struct model *model, struct model_heap *heap, struct heap_block *record);
void model_take_block_off(struct model *model, struct heap_block *record);
void model_revoke_block(struct model *model, struct heap_block *record);
void model_unmap_block(struct model *model, struct heap_block *record);

/* The latest epoch that anything in the block was freed in, since it came to its heap. */
uint32_t model_freed_in(const struct model *model, const struct model_range *block);

/* The heap has cut an allocation there. */
void model_take(struct model *model, struct model_heap *heap, uint64_t n_bytes, uint64_t address);

/* Frees in both. */
void model_free(struct model *model, struct model_heap *heap, unsigned index);

/* The smallest hole that n_bytes fit in; 0: none. */
uint64_t model_best_fit(const struct model_heap *heap, uint64_t n_bytes);

/* A block goes, if an idle one stands elsewhere than between the two addresses. */
bool model_take_idle(struct model *model, uint64_t start, uint64_t end);

/* The heap gets idle blocks of others that n_bytes fit in, if there are any. */
bool model_adopt(struct model *model, struct model_heap *heap, uint64_t n_bytes);

/* The heap, which has no hole for n_bytes, gets exactly the blocks of a plan: those of others that stand there, some
 * that move, and new ones. False: there are no addresses or records left, or the daemon was faster. */
bool model_lease(struct model *model, struct model_heap *heap, uint64_t n_bytes);

/* What is idle and was so at the last model_settle goes to the idle list. */
void model_put_idle(struct model *model);
void model_settle(struct model *model);

/* The client takes what is revoked off the idle list; unmaps one that was taken off. */
void model_sweep(struct model *model);
bool model_unmap_one(struct model *model);

/* The connection ends, and another one is there for what is leased from now on. */
void model_lose_words(struct model *model);

/* The daemon takes up to n blocks, if they are idle. */
void model_revoke_some(struct model *model, unsigned n);

/* Blocks on the idle list that follow each other, and what they touch of a heap's holes. */
struct model_run {
        uint64_t start, end, n_below_bytes, n_above_bytes;
        uint64_t n_wasted_bytes;           /* of blocks that would serve a request; 0: little */
        bool is_open_below, is_open_above; /* no block there; false where runs are kept apart */
};

/* The run that begins with the idle list's block of that index, which is moved behind it. With the
 * daemon's taken out of them, or as the client sees them. False: there is none. */
enum model_view { MODEL_SEEN, MODEL_GOOD };
bool model_next_run(struct model *model, const struct model_heap *heap, enum model_view view,
                    unsigned *index, struct model_run *ret_run);

/* What unshelving n_bytes will do. */
struct model_unshelving {
        bool is_enough;
        bool is_exact;         /* nothing was revoked */
        struct model_run best; /* valid if there is enough; others may be as good */
};
struct model_unshelving model_foretell_unshelving(struct model *model,
                                                  const struct model_heap *heap, uint64_t n_bytes);

/* The same has happened. */
void model_follow_unshelving(struct model *model, struct model_heap *heap, uint64_t n_bytes,
                             const struct model_unshelving *foretold);

/* Those that the idle list has given up as revoked. */
void model_follow_revoked(struct model *model);

/* Asserts that the heaps hold what the arrays hold, byte for byte, and that their own checks pass. */
void model_compare(struct model *model);
