#include "client/holes_index.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>
#include <string.h>

#define STEPS 16

unsigned holes_class(uint32_t n_units)
{
        unsigned exponent;

        if (n_units < STEPS)
                return n_units;
        exponent = 31u - (unsigned)__builtin_clz(n_units);
        return (exponent - 3) * STEPS + ((n_units >> (exponent - 4)) & (STEPS - 1));
}

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
        uint64_t bits, above;

        if (from >= HOLES_N_CLASSES)
                return -1;
        bits = holes->words[word] & (~UINT64_C(0) << (from % 64));
        if (!bits) {
                above = holes->summary & (~UINT64_C(0) << (word + 1));
                if (!above)
                        return -1;
                word = (unsigned)__builtin_ctzll(above);
                bits = holes->words[word];
        }
        return (int)(word * 64 + (unsigned)__builtin_ctzll(bits));
}

/* Which of the two places is the hole's nobody foresees: it is computed, without a branch. */
void holes_link(struct holes *holes, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);
        unsigned class = holes_class(piece->n_units);
        int32_t start = holes_order(piece->start), first = holes->starts[class];
        uint32_t head = holes->heads[class] & -(uint32_t)(first < start);
        uint32_t *places[] = {&holes->heads[class], &holes_at(holes, head)->next};
        uint32_t *place = places[head != 0];

        piece->state = PIECE_HOLE;
        holes->words[class / 64] |= UINT64_C(1) << (class % 64);
        holes->summary |= UINT64_C(1) << (class / 64);
        holes->starts[class] = first < start ? first : start;
        piece->previous = head;
        piece->next = *place;
        /* Index 0 is nobody's: what is written there is never read. */
        holes_at(holes, *place)->previous = index;
        *place = index;
        holes->n_holes++;
        holes->n_units += piece->n_units;
}

void holes_unlink(struct holes *holes, uint32_t index)
{
        struct piece *piece = holes_at(holes, index), *next;
        unsigned class;

        assert(piece->state == PIECE_HOLE);
        holes->n_holes--;
        holes->n_units -= piece->n_units;
        next = holes_at(holes, piece->next);
        next->previous = piece->previous;
        if (piece->previous) {
                holes_at(holes, piece->previous)->next = piece->next;
                return;
        }
        class = holes_class(piece->n_units);
        holes->heads[class] = piece->next;
        holes->starts[class] = holes_order(next->start);
        if (piece->next)
                return;
        holes->words[class / 64] &= ~(UINT64_C(1) << (class % 64));
        if (!holes->words[class / 64])
                holes->summary &= ~(UINT64_C(1) << (class / 64));
}

void holes_moved(struct holes *holes, uint32_t index)
{
        const struct piece *piece = holes_at(holes, index);

        if (!piece->previous)
                holes->starts[holes_class(piece->n_units)] = holes_order(piece->start);
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
        unsigned lowest = class, word = (class + 1) / 64, n_left = HOLES_FEW;
        uint64_t bits = holes->words[word] & (~UINT64_C(0) << ((class + 1) % 64));

        for (;;) {
                for (; bits && n_left; bits &= bits - 1, n_left--) {
                        unsigned found = word * 64 + (unsigned)__builtin_ctzll(bits);
                        int32_t at = holes->starts[found];

                        lowest = at < start ? found : lowest;
                        start = at < start ? at : start;
                }
                if (!n_left || ++word == HOLES_WORDS)
                        return lowest;
                bits = holes->words[word];
        }
}

/* The same of those that have holes from `from` on, four at a time and a doubling of sizes after the other. */
static unsigned lowest_of_many(const struct holes *holes, unsigned from, uint64_t bits,
                               unsigned class, int32_t start)
{
        four lowest = {start, start, start, start}, step = {4, 4, 4, 4};
        four found = {(int32_t) class, (int32_t) class, (int32_t) class, (int32_t) class};

        for (; bits; bits >>= STEPS, from += STEPS) {
                four at = {(int32_t)from, (int32_t)from + 1, (int32_t)from + 2, (int32_t)from + 3};

                for (unsigned i = 0; i < STEPS; i += 4, at += step) {
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

static inline bool are_few(uint64_t bits)
{
        for (unsigned i = 0; i < HOLES_FEW; i++)
                bits &= bits - 1;
        return !bits;
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

uint32_t holes_find(const struct holes *holes, uint32_t n_units)
{
        unsigned class = holes_class(n_units), lowest;
        uint32_t head = holes->heads[class];
        int32_t start = INT32_MAX;

        if (head && holes_at(holes, head)->n_units == n_units)
                return head;
        if (head)
                start = holes_at(holes, head)->n_units > n_units ? holes->starts[class] : INT32_MAX;
        lowest = lowest_above(holes, class, start);
        if (lowest != class)
                return holes->heads[lowest];
        return start < INT32_MAX ? head : find_in(holes, class, n_units);
}

uint32_t holes_largest(const struct holes *holes)
{
        uint32_t n_largest = 0;
        unsigned word;

        if (!holes->summary)
                return 0;
        word = 63u - (unsigned)__builtin_clzll(holes->summary);
        for (uint32_t i =
                     holes->heads[word * 64 + 63u - (unsigned)__builtin_clzll(holes->words[word])];
             i; i = holes_at(holes, i)->next) {
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
        for (unsigned word = 0; word < HOLES_WORDS; word++)
                assert((holes->summary >> word & 1) == (holes->words[word] != 0));
}
