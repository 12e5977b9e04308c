/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the library's bookkeeping by the kernel's count, and how long a look at its statistics takes. Only private
 * anonymous memory is counted, since the emulated driver maps its devices' bytes from files. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "bench/commands.h"
#include "bench/replace.h"
#include "bench/target.h"
#include "bench/timing.h"

#define N_LIVE_FULL  200000
#define N_LIVE_QUICK 20000
#define BOUND        0.25

#define N_LOOKS         1000
#define LOOK_US_AT_MOST 2

static int read_anonymous(uint64_t *ret_n_bytes)
{
        FILE *file = fopen("/proc/self/smaps_rollup", "re");
        unsigned long long kib = 0;
        char line[128];
        int r = -ENODATA;

        if (!file)
                return err_errno();
        while (r && fgets(line, sizeof(line), file)) {
                if (sscanf(line, "Anonymous: %llu kB", &kib) == 1)
                        r = 0;
        }
        (void)fclose(file);
        if (!r)
                *ret_n_bytes = kib * KIB;
        return r;
}

static int measure(struct target *target, struct replace *replace, uint64_t *ret_n_bytes)
{
        uint64_t before, after;
        int r;

        /* Touches the array of pointers before the count: it is not part of the library. */
        memset((void *)replace->live, 0xff, replace->n_live * sizeof(*replace->live));
        r = read_anonymous(&before);
        if (!r)
                r = replace_fill(replace, target_replace_alloc, target);
        if (!r)
                r = read_anonymous(&after);
        if (!r)
                *ret_n_bytes = after > before ? after - before : 0;
        return r;
}

static int add_rows(struct target *target, uint64_t n_bytes, uint32_t n_live, struct rows *rows)
{
        struct row share = {.name = "metadata", .unit = "%", .limit = ROW_AT_MOST, .bound = BOUND};
        struct row each = {.name = "metadata_an_allocation", .unit = "bytes"};
        struct gpumem_stats stats;
        int r = target_stats(target, &stats);

        if (r)
                return r;
        share.value = 100 * (double)n_bytes / (double)stats.n_requested_bytes;
        each.value = (double)n_bytes / n_live;
        r = rows_add(rows, &share);
        return r ? r : rows_add(rows, &each);
}

static int look(void *state, unsigned n_steps)
{
        struct gpumem_stats stats;
        int r = 0;

        for (unsigned i = 0; !r && i < n_steps; i++)
                r = target_stats(state, &stats);
        return r;
}

static int add_look(struct target *target, struct rows *rows)
{
        struct row row = {
                .name = "statistics", .unit = "us", .limit = ROW_AT_MOST, .bound = LOOK_US_AT_MOST};
        double ns;
        int r = time_repetition(look, target, N_LOOKS, &ns);

        row.value = ns / 1000;
        return r ? r : rows_add(rows, &row);
}

/* The first block allocates everything that does not depend on how much is live. */
static int warm_up(struct target *target)
{
        void *pointer;
        int r = target_alloc(target, 0, KIB, &pointer);

        return r ? r : target_free(target, 0, pointer);
}

int command_metadata(const struct options *options, struct rows *rows)
{
        uint32_t n_live = options->effort == EFFORT_FULL ? N_LIVE_FULL : N_LIVE_QUICK;
        struct replace replace;
        struct target target;
        uint64_t n_bytes;
        int r = target_init(options, &target);

        if (r)
                return r;
        r = replace_init(&replace, n_live, REPLACE_64KIB, 1);
        if (!r)
                r = warm_up(&target);
        if (!r)
                r = measure(&target, &replace, &n_bytes);
        if (!r)
                r = add_rows(&target, n_bytes, n_live, rows);
        if (!r)
                r = add_look(&target, rows);
        replace_deinit(&replace);
        target_deinit(&target);
        return target_check("metadata", r);
}
