/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/beside.h"

#include <stdbool.h>

#define REPETITIONS_FULL  21
#define REPETITIONS_QUICK 1

unsigned count_repetitions(const struct options *options)
{
        return options->effort == EFFORT_FULL ? REPETITIONS_FULL : REPETITIONS_QUICK;
}

static int take_turn(const struct beside *beside, struct peer *peers, struct samples *ours,
                     struct samples *theirs)
{
        double ns;
        int r = beside->repetition
                        ? beside->repetition(beside->state, &ns)
                        : time_repetition(beside->steps, beside->state, beside->n_steps, &ns);

        if (r)
                return r;
        samples_add(ours, ns);
        for (unsigned i = 0; i < PEER_N; i++) {
                r = peer_measure(&peers[i], &ns);
                if (r)
                        return r;
                samples_add(&theirs[i], ns);
        }
        return 0;
}

static void name_row(const struct beside *beside, enum peer_allocator peer, const char *which,
                     struct row *row)
{
        bool is_bounded = peer == beside->against;

        (void)snprintf(row->name, ROW_NAME_MAX, "%s%s%s%s", beside->name,
                       is_bounded ? "" : "_beside_", is_bounded ? "" : peer_name(peer), which);
}

/* Disturbances only add time, so the fastest repetitions have the bound; the medians stand beside them. */
static int add_pair(const struct beside *beside, enum peer_allocator peer, struct samples *ours,
                    struct samples *theirs, struct rows *rows)
{
        struct row row = {
                .value = samples_least(ours), .unit = "ns", .baseline = samples_least(theirs)};
        struct row median = {
                .value = samples_median(ours), .unit = "ns", .baseline = samples_median(theirs)};
        int r;

        if (peer == beside->against) {
                row.limit = ROW_AT_MOST;
                row.bound = beside->bound;
        }
        name_row(beside, peer, "", &row);
        name_row(beside, peer, "_median", &median);
        r = rows_add(rows, &row);
        return r ? r : rows_add(rows, &median);
}

static int add_rows(const struct beside *beside, struct samples *ours, struct samples *theirs,
                    struct rows *rows)
{
        int r = 0;

        for (unsigned i = 0; i < PEER_N && !r; i++)
                r = add_pair(beside, (enum peer_allocator)i, ours, &theirs[i], rows);
        return r;
}

int beside_measure(const struct beside *beside, const struct options *options, struct rows *rows)
{
        struct samples ours = {.n = 0}, theirs[PEER_N] = {{.n = 0}};
        struct peer peers[PEER_N] = {PEER_NULL};
        int r = 0;

        for (unsigned i = 0; i < PEER_N && !r; i++)
                r = peer_init((enum peer_allocator)i, beside->pattern, beside->n_live, &peers[i]);
        for (unsigned i = 0; i < count_repetitions(options) && !r; i++)
                r = take_turn(beside, peers, &ours, theirs);
        for (unsigned i = 0; i < PEER_N; i++)
                peer_deinit(&peers[i]);
        return r ? r : add_rows(beside, &ours, theirs, rows);
}
