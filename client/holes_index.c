#include "client/holes_index.h"

/* Wrong bookkeeping hands the same bytes out twice: its asserts stay in every build. */
#undef NDEBUG
#include <assert.h>

#define STEPS 16

unsigned holes_class(uint32_t n_units)
{
        unsigned exponent;

        if (n_units < STEPS)
                return n_units;
        exponent = 31u - (unsigned)__builtin_clz(n_units);
        return (exponent - 3) * STEPS + ((n_units >> (exponent - 4)) & (STEPS - 1));
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

static void put_first(struct holes *holes, unsigned class, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);
        uint32_t next = holes->heads[class];

        piece->next = next;
        piece->previous = 0;
        /* Index 0 is nobody's: what is written there is never read. */
        holes_at(holes, next)->previous = index;
        holes->heads[class] = index;
        holes->starts[class] = piece->start;
}

static void put_second(struct holes *holes, unsigned class, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);
        uint32_t head = holes->heads[class], next = holes_at(holes, head)->next;

        piece->next = next;
        piece->previous = head;
        holes_at(holes, next)->previous = index;
        holes_at(holes, head)->next = index;
}

void holes_link(struct holes *holes, uint32_t index)
{
        struct piece *piece = holes_at(holes, index);
        unsigned class = holes_class(piece->n_units);

        piece->state = PIECE_HOLE;
        holes->words[class / 64] |= UINT64_C(1) << (class % 64);
        holes->summary |= UINT64_C(1) << (class / 64);
        if (holes->heads[class] && holes->starts[class] < piece->start)
                put_second(holes, class, index);
        else
                put_first(holes, class, index);
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
        holes->starts[class] = next->start;
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
                holes->starts[holes_class(piece->n_units)] = piece->start;
}

/* Of the next HOLES_LOOK classes above that have holes, the one whose first hole starts lowest, and below
 * `start`; or `class`. */
static unsigned lowest_above(const struct holes *holes, unsigned class, uint32_t start)
{
        unsigned lowest = class, word = (class + 1) / 64, n_left = HOLES_LOOK;
        uint64_t bits = holes->words[word] & (~UINT64_C(0) << ((class + 1) % 64));

        for (;;) {
                for (; bits && n_left; bits &= bits - 1, n_left--) {
                        unsigned found = word * 64 + (unsigned)__builtin_ctzll(bits);
                        uint32_t at = holes->starts[found];

                        lowest = at < start ? found : lowest;
                        start = at < start ? at : start;
                }
                if (!n_left || ++word == HOLES_WORDS)
                        return lowest;
                bits = holes->words[word];
        }
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
        uint32_t head = holes->heads[class], start = UINT32_MAX;

        if (head && holes_at(holes, head)->n_units == n_units)
                return head;
        if (head && holes_at(holes, head)->n_units > n_units)
                start = holes->starts[class];
        lowest = lowest_above(holes, class, start);
        if (lowest != class)
                return holes->heads[lowest];
        return start < UINT32_MAX ? head : find_in(holes, class, n_units);
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
        assert(!index || holes->starts[class] == holes_at(holes, index)->start);
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
