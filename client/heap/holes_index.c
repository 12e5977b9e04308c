#include "client/heap/holes_index.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#include "base/err.h"

/* Where there is no hole its start is behind all others: that of index 0. */
void holes_open_index(struct holes *holes)
{
        holes_at(holes, 0)->start = UINT32_MAX;
        for (unsigned class = 0; class < HOLES_N_STARTS; class ++)
                holes->starts[class] = holes_order(UINT32_MAX);
}

/* The lowest class with a hole at or above `from`, or -1. */
static int next_class(const struct holes *holes, unsigned from)
{
        unsigned word = from / 64;
        uint64_t bits = holes->words[word] & (~UINT64_C(0) << (from % 64));

        while (!bits && ++word < HOLES_WORDS)
                bits = holes->words[word];
        return bits ? (int)(word * 64 + (unsigned)__builtin_ctzll(bits)) : -1;
}

static ALWAYS_INLINE uint32_t *choose_place(bool is_first, uint32_t *first, uint32_t *second)
{
        uintptr_t mask = -(uintptr_t)is_first;

        return (uint32_t *)(((uintptr_t)first & mask) | ((uintptr_t)second & ~mask));
}

/* Which of the two places is the hole's nobody foresees: it is computed, without a branch. */
static ALWAYS_INLINE void put_in(struct holes *holes, uint32_t index, unsigned class)
{
        struct piece *piece = holes_at(holes, index);
        int32_t start = holes_order(piece->start), first = holes->starts[class];
        uint32_t head = holes->heads[class] & -(uint32_t)(first < start);
        uint32_t *place = choose_place(head != 0, &holes_at(holes, head)->next,
                                       &holes->heads[class]);

        holes->words[class / 64] |= UINT64_C(1) << (class % 64);
        holes->starts[class] = first < start ? first : start;
        piece->previous = head;
        piece->next = *place;
        /* Index 0 is nobody's: what is written there is never read. */
        holes_at(holes, *place)->previous = index;
        *place = index;
}

static ALWAYS_INLINE void take_from(struct holes *holes, const struct piece *piece, unsigned class)
{
        struct piece *next = holes_at(holes, piece->next);

        assert(piece->state == PIECE_HOLE);
        next->previous = piece->previous;
        if (piece->previous) {
                holes_at(holes, piece->previous)->next = piece->next;
                return;
        }
        holes->heads[class] = piece->next;
        holes->starts[class] = holes_order(next->start);
        if (!piece->next)
                holes->words[class / 64] &= ~(UINT64_C(1) << (class % 64));
}

void holes_link(struct holes *holes, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);

        piece->state = PIECE_HOLE;
        put_in(holes, index, holes_class(piece->n_units));
        holes->n_holes++;
        holes->n_units += piece->n_units;
}

void holes_unlink(struct holes *holes, uint32_t index)
{
        const struct piece *piece = holes_at(holes, index);

        take_from(holes, piece, holes_class(piece->n_units));
        holes->n_holes--;
        holes->n_units -= piece->n_units;
}

/* It keeps its place in the list of its class, as that of a large one mostly stays the same. */
void holes_resize(struct holes *holes, uint32_t index, uint32_t n_units)
{
        struct piece *piece = holes_at(holes, index);
        unsigned from = holes_class(piece->n_units), to = holes_class(n_units);

        holes->n_units += (uint64_t)n_units - piece->n_units;
        if (from != to)
                take_from(holes, piece, from);
        piece->n_units = n_units;
        if (from != to)
                put_in(holes, index, to);
        else if (!piece->previous)
                holes->starts[to] = holes_order(piece->start);
}

/* Four classes at a time, each lane for itself. */
typedef int32_t four __attribute__((vector_size(16)));

static inline four choose(four mask, four yes, four no)
{
        return (mask & yes) | (~mask & no);
}

/* A start and its class, to be compared together. */
static inline int64_t pair(four starts, four classes, unsigned lane)
{
        return (int64_t)starts[lane] * (INT64_C(1) << 32) + classes[lane];
}

static inline int64_t least(int64_t one, int64_t other)
{
        return one < other ? one : other;
}

/* Which of the HOLES_LOOK classes from `from` on have holes: as many as a word has bits. */
static inline uint64_t window(const struct holes *holes, unsigned from)
{
        uint64_t bits = holes->words[from / 64] >> (from % 64);

        return from % 64 ? bits | holes->words[from / 64 + 1] << (64 - from % 64) : bits;
}

/* Of the next HOLES_FEW classes that have holes, the one whose first hole starts lowest, and below `start`;
 * or `class`. */
static inline unsigned lowest_of_few(const struct holes *holes, unsigned class, int32_t start)
{
        unsigned lowest = class, base = (class + 1) & ~63u;
        uint64_t bits = holes->words[base / 64] & (~UINT64_C(0) << ((class + 1) % 64));

        for (unsigned n_left = HOLES_FEW; n_left; n_left--, bits &= bits - 1) {
                unsigned found;
                int32_t at;

                while (!bits) {
                        base += 64;
                        if (base == HOLES_WORDS * 64)
                                return lowest;
                        bits = holes->words[base / 64];
                }
                found = base + (unsigned)__builtin_ctzll(bits);
                at = holes->starts[found];
                lowest = at < start ? found : lowest;
                start = at < start ? at : start;
        }
        return lowest;
}

/* The same of those that have holes from `from` on, four at a time and a doubling of sizes after the other. */
static unsigned lowest_of_many(const struct holes *holes, unsigned from, uint64_t bits,
                               unsigned class, int32_t start)
{
        four lowest = {start, start, start, start}, step = {4, 4, 4, 4};
        four found = {(int32_t) class, (int32_t) class, (int32_t) class, (int32_t) class};

        for (; bits; bits >>= HOLES_STEPS, from += HOLES_STEPS) {
                four at = {(int32_t)from, (int32_t)from + 1, (int32_t)from + 2, (int32_t)from + 3};

                for (unsigned i = 0; i < HOLES_STEPS; i += 4, at += step) {
                        four starts, is_lower;

                        memcpy(&starts, &holes->starts[from + i], sizeof(starts));
                        is_lower = starts < lowest;
                        lowest = choose(is_lower, starts, lowest);
                        found = choose(is_lower, at, found);
                }
        }
        return (unsigned)least(least(pair(lowest, found, 0), pair(lowest, found, 1)),
                               least(pair(lowest, found, 2), pair(lowest, found, 3)));
}

/* Not every processor that this is compiled for counts bits by itself. */
#define ODD       UINT64_C(0x5555555555555555)
#define ODD_PAIRS UINT64_C(0x3333333333333333)
#define ODD_FOURS UINT64_C(0x0f0f0f0f0f0f0f0f)
#define ODD_BYTES UINT64_C(0x0101010101010101)

static inline bool are_few(uint64_t bits)
{
        bits = (bits & ODD) + (bits >> 1 & ODD);
        bits = (bits & ODD_PAIRS) + (bits >> 2 & ODD_PAIRS);
        bits = (bits + (bits >> 4)) & ODD_FOURS;
        return bits * ODD_BYTES >> 56 <= HOLES_FEW;
}

/* What was just written is not to be read in fours: a processor waits until all four are in its cache.
 * Where there are many, few of them were. */
static inline unsigned lowest_above(const struct holes *holes, unsigned class, int32_t start)
{
        uint64_t bits = window(holes, class + 1);

        return are_few(bits) ? lowest_of_few(holes, class, start)
                             : lowest_of_many(holes, class + 1, bits, class, start);
}

static uint32_t find_in(const struct holes *holes, unsigned class, uint32_t n_units)
{
        uint32_t index = holes->heads[class];

        while (index && holes_at(holes, index)->n_units < n_units)
                index = holes_at(holes, index)->next;
        return index;
}

static ALWAYS_INLINE uint32_t find_first(const struct holes *holes, unsigned class,
                                         uint32_t n_units)
{
        uint32_t head = holes->heads[class];
        int32_t start = INT32_MAX;
        unsigned lowest;

        if (head && holes_at(holes, head)->n_units == n_units)
                return head;
        if (head)
                start = holes_at(holes, head)->n_units > n_units ? holes->starts[class] : INT32_MAX;
        lowest = lowest_above(holes, class, start);
        if (lowest != class)
                return holes->heads[lowest];
        return start < INT32_MAX ? head : 0;
}

uint32_t holes_find_first(const struct holes *holes, uint32_t n_units)
{
        return find_first(holes, holes_class(n_units), n_units);
}

uint32_t holes_find(const struct holes *holes, uint32_t n_units)
{
        unsigned class = holes_class(n_units);
        uint32_t found = find_first(holes, class, n_units);

        return found ? found : find_in(holes, class, n_units);
}

/* The highest class with a hole; any class where there is none. */
static unsigned last_class(const struct holes *holes)
{
        unsigned word = HOLES_WORDS;

        while (word && !holes->words[--word])
                ;
        return holes->words[word] ? word * 64 + 63u - (unsigned)__builtin_clzll(holes->words[word])
                                  : 0;
}

uint32_t holes_largest(const struct holes *holes)
{
        uint32_t n_largest = 0;
        unsigned class = last_class(holes);

        for (uint32_t i = holes->heads[class]; i; i = holes_at(holes, i)->next) {
                if (holes_at(holes, i)->n_units > n_largest)
                        n_largest = holes_at(holes, i)->n_units;
        }
        return n_largest;
}

uint32_t holes_next_large(const struct holes *holes, uint32_t n_units, uint32_t hole)
{
        unsigned class = holes_class(n_units);
        uint32_t index = hole ? holes_at(holes, hole)->next : holes->heads[class];
        int next;

        if (hole)
                class = holes_class(holes_at(holes, hole)->n_units);
        for (;;) {
                for (; index; index = holes_at(holes, index)->next) {
                        if (holes_at(holes, index)->n_units >= n_units)
                                return index;
                }
                next = next_class(holes, class + 1);
                if (next < 0)
                        return 0;
                class = (unsigned)next;
                index = holes->heads[class];
        }
}

static void tally_class(const struct holes *holes, unsigned class, struct holes_tally *tally)
{
        uint32_t previous = 0, index = holes->heads[class];

        assert((holes->words[class / 64] >> (class % 64) & 1) == (index != 0));
        assert(!holes->pieces ||
               holes->starts[class] == holes_order(holes_at(holes, index)->start));
        for (; index; previous = index, index = holes_at(holes, index)->next) {
                const struct piece *hole = holes_at(holes, index);

                assert(hole->state == PIECE_HOLE && hole->previous == previous);
                assert(holes_class(hole->n_units) == class);
                tally->n_holes++;
                tally->n_hole_units += hole->n_units;
                tally->sum_of_holes += index;
        }
}

void holes_tally_index(const struct holes *holes, struct holes_tally *tally)
{
        for (unsigned class = 0; class < HOLES_N_CLASSES; class ++)
                tally_class(holes, class, tally);
        assert(!holes->words[HOLES_WORDS]);
}
