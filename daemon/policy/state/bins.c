/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/state/bins.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void bins_init(struct bins *bins)
{
        for (unsigned side = 0; side < BIN_N_SIDES; side++)
                bins->occupied[side] = BITMAP_NULL;
        bins->n_charged = 0;
        for (unsigned i = 0; i < SIZE_N_CLASSES; i++)
                TAILQ_INIT(&bins->classes[i]);
}

static struct bin_class *class_of(struct bins *bins, uint64_t n_bytes)
{
        return &bins->classes[size_class(n_bytes)];
}

/* The first bin of the class with at least that size, or NULL. */
static struct bin *first_from(const struct bin_class *bin_class, uint64_t n_bytes)
{
        struct bin *bin;

        TAILQ_FOREACH (bin, bin_class, class_link) {
                if (bin->n_bytes >= n_bytes)
                        return bin;
        }
        return NULL;
}

static struct bin *find_exact(struct bins *bins, uint64_t n_bytes, uint32_t properties)
{
        struct bin *bin = first_from(class_of(bins, n_bytes), n_bytes);

        while (bin && bin->n_bytes == n_bytes && bin->properties != properties)
                bin = TAILQ_NEXT(bin, class_link);
        return bin && bin->n_bytes == n_bytes ? bin : NULL;
}

static void insert(struct bins *bins, struct bin *bin)
{
        struct bin_class *bin_class = class_of(bins, bin->n_bytes);
        struct bin *next = first_from(bin_class, bin->n_bytes);

        if (next)
                TAILQ_INSERT_BEFORE(next, bin, class_link);
        else
                TAILQ_INSERT_TAIL(bin_class, bin, class_link);
}

int bins_ref(struct bins *bins, uint64_t n_bytes, uint32_t properties, struct bin **ret_bin)
{
        struct bin *bin = find_exact(bins, n_bytes, properties);

        if (!bin) {
                bin = calloc(1, sizeof(*bin));
                if (!bin)
                        return -ENOMEM;
                bin->bins = bins;
                bin->n_bytes = n_bytes;
                bin->properties = properties;
                for (unsigned side = 0; side < BIN_N_SIDES; side++)
                        TAILQ_INIT(&bin->sides[side]);
                TAILQ_INIT(&bin->charged);
                insert(bins, bin);
        }
        bin->n_refs++;
        *ret_bin = bin;
        return 0;
}

struct bin *bin_unref(struct bin *bin)
{
        if (!bin || --bin->n_refs)
                return NULL;
        for (unsigned side = 0; side < BIN_N_SIDES; side++)
                assert(TAILQ_EMPTY(&bin->sides[side]));
        assert(TAILQ_EMPTY(&bin->charged));
        TAILQ_REMOVE(class_of(bin->bins, bin->n_bytes), bin, class_link);
        free(bin);
        return NULL;
}

void bin_put(struct bin *bin, enum bin_side side, struct block *block)
{
        bin->n_cached += side == BIN_CACHED;
        if (side == BIN_CACHED)
                TAILQ_INSERT_HEAD(&bin->sides[side], block, bin_link);
        else
                TAILQ_INSERT_TAIL(&bin->sides[side], block, bin_link);
        bitmap_set(&bin->bins->occupied[side], size_class(bin->n_bytes));
}

void bin_remove(struct bin *bin, enum bin_side side, struct block *block)
{
        struct bin_class *bin_class = class_of(bin->bins, bin->n_bytes);
        struct bin *other;

        TAILQ_REMOVE(&bin->sides[side], block, bin_link);
        bin->n_cached -= side == BIN_CACHED;
        if (!TAILQ_EMPTY(&bin->sides[side]))
                return;
        TAILQ_FOREACH (other, bin_class, class_link) {
                if (!TAILQ_EMPTY(&other->sides[side]))
                        return;
        }
        bitmap_clear(&bin->bins->occupied[side], size_class(bin->n_bytes));
}

void bin_put_charged(struct bin *bin, struct block *block)
{
        TAILQ_INSERT_HEAD(&bin->charged, block, charged_link);
        block->in_charged = true;
        bin->bins->n_charged++;
}

void bin_forget_charged(struct bin *bin, struct block *block)
{
        if (!block->in_charged)
                return;
        TAILQ_REMOVE(&bin->charged, block, charged_link);
        block->in_charged = false;
        bin->bins->n_charged--;
}

uint64_t bins_limit(uint64_t n_bytes)
{
        uint64_t limit;

        return __builtin_add_overflow(n_bytes, n_bytes / 8, &limit) ? UINT64_MAX : limit;
}

bool bin_is_in_range(const struct bin *bin, const struct bin_range *range)
{
        return bin->n_bytes >= range->n_least_bytes && bin->n_bytes <= range->n_most_bytes &&
               bin->properties == range->properties;
}

static bool is_in(const struct bin *bin, enum bin_side side, const struct bin_range *range)
{
        return bin_is_in_range(bin, range) && !TAILQ_EMPTY(&bin->sides[side]);
}

struct bin *bins_find(const struct bins *bins, enum bin_side side, const struct bin_range *range)
{
        const struct bitmap *occupied = &bins->occupied[side];
        unsigned last = size_class(range->n_most_bytes);
        int class = bitmap_next(occupied, size_class(range->n_least_bytes));

        for (; class >= 0 && (unsigned)class <= last;
             class = bitmap_next(occupied, (unsigned)class + 1)) {
                struct bin *bin;

                TAILQ_FOREACH (bin, &bins->classes[class], class_link) {
                        if (is_in(bin, side, range))
                                return bin;
                }
        }
        return NULL;
}

struct bin *bins_find_last(const struct bins *bins, enum bin_side side,
                           const struct bin_range *range)
{
        const struct bitmap *occupied = &bins->occupied[side];
        int first = (int)size_class(range->n_least_bytes);

        for (int class = (int)size_class(range->n_most_bytes); class >= first; class --) {
                struct bin *bin;

                if (!bitmap_test(occupied, (unsigned)class))
                        continue;
                TAILQ_FOREACH_REVERSE(bin, &bins->classes[class], bin_class, class_link)
                {
                        if (is_in(bin, side, range))
                                return bin;
                }
        }
        return NULL;
}
