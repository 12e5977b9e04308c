/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap/free_index.h"

/* Wrong bookkeeping would allocate the same bytes twice, so these asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <string.h>
#if defined(__x86_64__)
#include <smmintrin.h>
#endif

#include "base/err.h"

/* A class without holes has head 0, so index 0 starts behind all others. */
void free_index_open(struct extents *extents)
{
        extents_at(extents, 0)->start = UINT32_MAX;
        for (unsigned class = 0; class < EXTENTS_N_STARTS; class ++)
                extents->starts[class] = free_index_order(UINT32_MAX);
}

/* Of a class without holes nothing but this bit is read. */
static inline bool has_holes(const struct extents *extents, unsigned class)
{
        return extents->words[class / 64] >> (class % 64) & 1;
}

/* The lowest class with a hole at or above `from`, or -1. */
static int next_class(const struct extents *extents, unsigned from)
{
        unsigned word = from / 64;
        uint64_t bits = extents->words[word] & (~UINT64_C(0) << (from % 64));

        while (!bits && ++word < EXTENTS_WORDS)
                bits = extents->words[word];
        return bits ? (int)(word * 64 + (unsigned)__builtin_ctzll(bits)) : -1;
}

static ALWAYS_INLINE uint32_t *choose_place(bool is_first, uint32_t *first, uint32_t *second)
{
        uintptr_t mask = -(uintptr_t)is_first;

        return (uint32_t *)(((uintptr_t)first & mask) | ((uintptr_t)second & ~mask));
}

/* Chooses between the two places without a branch, since the choice is not predictable. */
static ALWAYS_INLINE void put_in(struct extents *extents, uint32_t index, unsigned class)
{
        struct extent *extent = extents_at(extents, index);
        int32_t start = free_index_order(extent->start), first = extents->starts[class];
        uint32_t head = extents->heads[class] & -(uint32_t)(first < start);
        uint32_t *place = choose_place(head != 0, &extents_at(extents, head)->next,
                                       &extents->heads[class]);

        extents->words[class / 64] |= UINT64_C(1) << (class % 64);
        extents->starts[class] = first < start ? first : start;
        extent->previous = head;
        extent->next = *place;
        /* `*place` may be 0: the fields of index 0 are written but never read. */
        extents_at(extents, *place)->previous = index;
        *place = index;
}

static ALWAYS_INLINE void take_from(struct extents *extents, const struct extent *extent,
                                    unsigned class)
{
        struct extent *next = extents_at(extents, extent->next);

        assert(extent->state == EXTENT_FREE);
        next->previous = extent->previous;
        if (extent->previous) {
                extents_at(extents, extent->previous)->next = extent->next;
                return;
        }
        extents->heads[class] = extent->next;
        extents->starts[class] = free_index_order(next->start);
        if (!extent->next)
                extents->words[class / 64] &= ~(UINT64_C(1) << (class % 64));
}

void free_index_link(struct extents *extents, uint32_t index)
{
        struct extent *extent = extents_at(extents, index);

        extent->state = EXTENT_FREE;
        put_in(extents, index, free_index_class(extent->n_units));
        extents->n_free++;
        extents->n_units += extent->n_units;
}

void free_index_unlink(struct extents *extents, uint32_t index)
{
        const struct extent *extent = extents_at(extents, index);

        take_from(extents, extent, free_index_class(extent->n_units));
        extents->n_free--;
        extents->n_units -= extent->n_units;
}

/* The hole keeps its place in its class's list: the class of a large hole mostly stays the same. */
void free_index_resize(struct extents *extents, uint32_t index, uint32_t n_units)
{
        struct extent *extent = extents_at(extents, index);
        unsigned from = free_index_class(extent->n_units), to = free_index_class(n_units);

        extents->n_units += (uint64_t)n_units - extent->n_units;
        if (from != to)
                take_from(extents, extent, from);
        extent->n_units = n_units;
        if (from != to)
                put_in(extents, index, to);
        else if (!extent->previous)
                extents->starts[to] = free_index_order(extent->start);
}

/* Four classes at a time, one in each lane. */
typedef int32_t four __attribute__((vector_size(16)));

static inline four choose(four mask, four yes, four no)
{
        return (mask & yes) | (~mask & no);
}

/* A start and its class as one number, so that the lowest start wins, then the lowest class. */
static inline int64_t pair(four starts, four classes, unsigned lane)
{
        return (int64_t)starts[lane] * (INT64_C(1) << 32) + classes[lane];
}

static inline int64_t least(int64_t one, int64_t other)
{
        return one < other ? one : other;
}

/* A bit for each of the EXTENTS_LOOK classes from `from` on: does it have holes? */
static inline uint64_t window(const struct extents *extents, unsigned from)
{
        uint64_t bits = extents->words[from / 64] >> (from % 64);

        return from % 64 ? bits | extents->words[from / 64 + 1] << (64 - from % 64) : bits;
}

/* Of the next EXTENTS_FEW classes that have holes, returns the one whose first hole starts lowest and below `start`;
 * or `class`. */
static inline unsigned lowest_of_few(const struct extents *extents, unsigned class, int32_t start)
{
        unsigned lowest = class, base = (class + 1) & ~63u;
        uint64_t bits = extents->words[base / 64] & (~UINT64_C(0) << ((class + 1) % 64));

        for (unsigned n_left = EXTENTS_FEW; n_left; n_left--, bits &= bits - 1) {
                unsigned found;
                int32_t at;

                while (!bits) {
                        base += 64;
                        if (base == EXTENTS_WORDS * 64)
                                return lowest;
                        bits = extents->words[base / 64];
                }
                found = base + (unsigned)__builtin_ctzll(bits);
                at = extents->starts[found];
                lowest = at < start ? found : lowest;
                start = at < start ? at : start;
        }
        return lowest;
}

/* The same for all classes in `bits`, from `from` on: four at a time, one doubling of sizes after another. */
static unsigned lowest_of_many(const struct extents *extents, unsigned from, uint64_t bits,
                               unsigned class, int32_t start)
{
        four lowest = {start, start, start, start}, step = {4, 4, 4, 4};
        four found = {(int32_t) class, (int32_t) class, (int32_t) class, (int32_t) class};

        for (; bits; bits >>= FREE_INDEX_STEPS, from += FREE_INDEX_STEPS) {
                four at = {(int32_t)from, (int32_t)from + 1, (int32_t)from + 2, (int32_t)from + 3};

                for (unsigned i = 0; i < FREE_INDEX_STEPS; i += 4, at += step) {
                        four starts, is_lower;

                        memcpy(&starts, &extents->starts[from + i], sizeof(starts));
                        is_lower = starts < lowest;
                        lowest = choose(is_lower, starts, lowest);
                        found = choose(is_lower, at, found);
                }
        }
        return (unsigned)least(least(pair(lowest, found, 0), pair(lowest, found, 1)),
                               least(pair(lowest, found, 2), pair(lowest, found, 3)));
}

#if defined(__x86_64__)
#define LANES       4
#define SSE4_1      __attribute__((target("sse4.1")))
#define LOAD(at, i) _mm_loadu_si128((const void *)((at) + (size_t)(i)*LANES))

static SSE4_1 inline int32_t least_of(__m128i one)
{
        one = _mm_min_epi32(one, _mm_shuffle_epi32(one, _MM_SHUFFLE(1, 0, 3, 2)));
        one = _mm_min_epi32(one, _mm_shuffle_epi32(one, _MM_SHUFFLE(2, 3, 0, 1)));
        return _mm_cvtsi128_si32(one);
}

/* A bit for each of 16 starts: is it this one? */
static SSE4_1 inline uint64_t which_are(const int32_t *starts, __m128i start)
{
        __m128i low = _mm_packs_epi32(_mm_cmpeq_epi32(LOAD(starts, 0), start),
                                      _mm_cmpeq_epi32(LOAD(starts, 1), start));
        __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(LOAD(starts, 2), start),
                                       _mm_cmpeq_epi32(LOAD(starts, 3), start));

        return (uint64_t)(unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high));
}

/* lowest_of_many, for all EXTENTS_LOOK classes, in a third of the instructions: looks for the least start first, then
 * for its class. No two holes have one start. */
static SSE4_1 unsigned lowest_of_look(const struct extents *extents, unsigned from, unsigned class,
                                      int32_t start)
{
        const int32_t *starts = &extents->starts[from];
        __m128i least[2] = {LOAD(starts, 0), LOAD(starts, 1)}, found;
        uint64_t places = 0;
        int32_t lowest;

        for (unsigned i = 2; i < EXTENTS_LOOK / LANES; i += 2) {
                least[0] = _mm_min_epi32(least[0], LOAD(starts, i));
                least[1] = _mm_min_epi32(least[1], LOAD(starts, i + 1));
        }
        lowest = least_of(_mm_min_epi32(least[0], least[1]));
        if (lowest >= start)
                return class;
        found = _mm_set1_epi32(lowest);
        for (unsigned i = 0; i < EXTENTS_LOOK; i += 16)
                places |= which_are(starts + i, found) << i;
        return from + (unsigned)__builtin_ctzll(places);
}

static inline bool has_sse4_1(void)
{
        return __builtin_cpu_supports("sse4.1");
}
#else
static inline unsigned lowest_of_look(const struct extents *extents, unsigned from, unsigned class,
                                      int32_t start)
{
        return lowest_of_many(extents, from, window(extents, from), class, start);
}

static inline bool has_sse4_1(void)
{
        return false;
}
#endif

/* Masks to count bits: not every processor that this is compiled for has an instruction for it. */
#define ODD       UINT64_C(0x5555555555555555)
#define ODD_PAIRS UINT64_C(0x3333333333333333)
#define ODD_FOURS UINT64_C(0x0f0f0f0f0f0f0f0f)
#define ODD_BYTES UINT64_C(0x0101010101010101)

static inline bool are_few(uint64_t bits)
{
        bits = (bits & ODD) + (bits >> 1 & ODD);
        bits = (bits & ODD_PAIRS) + (bits >> 2 & ODD_PAIRS);
        bits = (bits + (bits >> 4)) & ODD_FOURS;
        return bits * ODD_BYTES >> 56 <= EXTENTS_FEW;
}

/* Of the next EXTENTS_NEAR classes, returns the one whose first hole starts lowest and below `start`; or `class`. */
static inline unsigned lowest_of_near(const struct extents *extents, unsigned class, int32_t start)
{
        unsigned lowest = class;

        for (unsigned at = class + 1; at <= class + EXTENTS_NEAR; at++) {
                lowest = extents->starts[at] < start ? at : lowest;
                start = extents->starts[at] < start ? extents->starts[at] : start;
        }
        return lowest;
}

/* Reading four starts right after a store to one of them stalls the processor until that store is in the cache. If
 * many classes have holes, few of them were just written. */
static inline unsigned lowest_above(const struct extents *extents, unsigned class, int32_t start)
{
        uint64_t bits = window(extents, class + 1);

        if (are_few(bits))
                return lowest_of_few(extents, class, start);
        return has_sse4_1() ? lowest_of_look(extents, class + 1, class, start)
                            : lowest_of_many(extents, class + 1, bits, class, start);
}

/* Of the classes above, the one to take from, or `class`. Where that has no hole that is large enough, `start` is INT32_MAX. */
static ALWAYS_INLINE unsigned choose_class(const struct extents *extents, unsigned class,
                                           uint32_t n_units, int32_t start)
{
        if (n_units >= EXTENTS_LARGE) {
                unsigned near = lowest_of_near(extents, class, start);

                if (near != class || start < INT32_MAX)
                        return near;
        }
        return lowest_above(extents, class, start);
}

static uint32_t find_in(const struct extents *extents, unsigned class, uint32_t n_units)
{
        uint32_t index = extents->heads[class];

        while (index && extents_at(extents, index)->n_units < n_units)
                index = extents_at(extents, index)->next;
        return index;
}

static ALWAYS_INLINE uint32_t find_first(const struct extents *extents, unsigned class,
                                         uint32_t n_units)
{
        int32_t start = INT32_MAX;
        uint32_t head = 0;
        unsigned lowest;

        if (has_holes(extents, class)) {
                head = extents->heads[class];
                if (extents_at(extents, head)->n_units == n_units)
                        return head;
                if (extents_at(extents, head)->n_units > n_units)
                        start = extents->starts[class];
        }
        lowest = choose_class(extents, class, n_units, start);
        if (lowest != class)
                return extents->heads[lowest];
        return start < INT32_MAX ? head : 0;
}

uint32_t extents_find_first_free(const struct extents *extents, uint32_t n_units)
{
        return find_first(extents, free_index_class(n_units), n_units);
}

uint32_t extents_find_free(const struct extents *extents, uint32_t n_units)
{
        unsigned class = free_index_class(n_units);
        uint32_t found = find_first(extents, class, n_units);

        return found ? found : find_in(extents, class, n_units);
}

/* The highest class with a hole, or -1. */
static int highest_class(const struct extents *extents)
{
        for (int word = EXTENTS_WORDS - 1; word >= 0; word--) {
                uint64_t bits = extents->words[word];

                if (bits)
                        return word * 64 + 63 - __builtin_clzll(bits);
        }
        return -1;
}

uint32_t extents_largest_free(const struct extents *extents)
{
        int class = highest_class(extents);
        uint32_t n_units = 0, n_looks = 0;

        if (class < 0)
                return 0;
        for (uint32_t index = extents->heads[class]; index && n_looks++ < EXTENTS_LARGEST_LOOKS;
             index = extents_at(extents, index)->next) {
                if (extents_at(extents, index)->n_units > n_units)
                        n_units = extents_at(extents, index)->n_units;
                if (class < FREE_INDEX_STEPS)
                        break;
        }
        return n_units;
}

uint32_t extents_next_large_free(const struct extents *extents, uint32_t n_units,
                                 uint32_t free_extent)
{
        unsigned class = free_index_class(n_units);
        uint32_t index = free_extent ? extents_at(extents, free_extent)->next
                                     : extents->heads[class];
        int next;

        if (free_extent)
                class = free_index_class(extents_at(extents, free_extent)->n_units);
        for (;;) {
                for (; index; index = extents_at(extents, index)->next) {
                        if (extents_at(extents, index)->n_units >= n_units)
                                return index;
                }
                next = next_class(extents, class + 1);
                if (next < 0)
                        return 0;
                class = (unsigned)next;
                index = extents->heads[class];
        }
}

static void tally_class(const struct extents *extents, unsigned class, struct extents_tally *tally)
{
        uint32_t previous = 0, index = extents->heads[class];

        assert((extents->words[class / 64] >> (class % 64) & 1) == (index != 0));
        assert(!extents->extents ||
               extents->starts[class] == free_index_order(extents_at(extents, index)->start));
        for (; index; previous = index, index = extents_at(extents, index)->next) {
                const struct extent *free_extent = extents_at(extents, index);

                assert(free_extent->state == EXTENT_FREE && free_extent->previous == previous);
                assert(free_index_class(free_extent->n_units) == class);
                tally->n_free++;
                tally->n_free_units += free_extent->n_units;
                tally->sum_of_free += index;
        }
}

void free_index_tally(const struct extents *extents, struct extents_tally *tally)
{
        for (unsigned class = 0; class < EXTENTS_N_CLASSES; class ++)
                tally_class(extents, class, tally);
        assert(!extents->words[EXTENTS_WORDS]);
}
