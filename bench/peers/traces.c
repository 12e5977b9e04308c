/* Traces of programs, played through the library and through PyTorch's own allocator: the peak of what is
 * reserved for them over the peak of what they ask for. The bounds are on what the library has leased;
 * beside PyTorch, which has all of its memory from the driver, stands what the daemon has from it, what
 * is cached there for anybody included. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "bench/peers/comparing.h"
#include "bench/replayed.h"

#define SECONDS 40

static const enum rival_kind kinds[] = {RIVAL_GPUMEMD, RIVAL_TORCH_PYTHON, RIVAL_TORCH_EXPANDABLE};

#define N_KINDS ARRAY_SIZE(kinds)

struct played {
        struct rival rivals[N_KINDS];
        int r[N_KINDS];
        double ratios[N_KINDS]; /* held from the driver */
        double leased, hits;    /* gpumemd's */
};

/* All at once: none of them waits for a GPU. */
static void play(struct comparing *comparing, const char *file, struct played *played)
{
        char order[RIVAL_TEXT_MAX];

        (void)snprintf(order, sizeof(order), "trace %s", file);
        for (unsigned i = 0; i < N_KINDS; i++) {
                played->r[i] = rival_spawn(kinds[i], &comparing->setup, &played->rivals[i]);
                if (!played->r[i])
                        played->r[i] = rival_tell(&played->rivals[i], order);
        }
        for (unsigned i = 0; i < N_KINDS; i++) {
                double numbers[RIVAL_NUMBERS_MAX] = {0};

                if (!played->r[i])
                        played->r[i] = rival_hear_ready(&played->rivals[i], SECONDS);
                if (!played->r[i])
                        played->r[i] = rival_hear(&played->rivals[i], SECONDS, numbers);
                rival_end(&played->rivals[i]);
                played->ratios[i] = numbers[i ? 1 : 3] / fmax(1, numbers[0]);
                if (i)
                        continue;
                played->leased = numbers[1] / fmax(1, numbers[0]);
                played->hits = numbers[2];
        }
}

static int add_ours(struct comparing *comparing, const char *name, const struct played *played,
                    double bound)
{
        struct row row = {
                .value = played->leased, .unit = "", .limit = ROW_AT_MOST, .bound = bound};

        comparing_name(name, "", &row);
        return rows_add(comparing->rows, &row);
}

static int add_beside(struct comparing *comparing, const char *name, const struct played *played)
{
        int r = 0;

        for (unsigned i = 1; i < N_KINDS && !r; i++) {
                struct row row = {
                        .value = played->ratios[0], .unit = "", .baseline = played->ratios[i]};

                comparing_name(name, rival_name(kinds[i]), &row);
                r = played->r[i] ? comparing_add_note(comparing, name, rival_name(kinds[i]),
                                                      rival_name(kinds[i]), played->rivals[i].note)
                                 : rows_add(comparing->rows, &row);
        }
        return r;
}

static int add_one(struct comparing *comparing, const char *file, const struct played *played)
{
        struct row hits = {.value = played->hits, .unit = "%", .limit = ROW_AT_LEAST, .bound = 95};
        char name[ROW_NAME_MAX], held[ROW_NAME_MAX];
        int r;

        replayed_name(file, "reserved", name);
        replayed_name(file, "held", held);
        if (comparing_ours(comparing, played->r[0]))
                return comparing_add_note(comparing, name, "", "gpumemd", played->rivals[0].note);
        r = add_ours(comparing, name, played, 1.2);
        if (!r)
                r = add_beside(comparing, held, played);
        replayed_name(file, "hits", hits.name);
        return r ? r : rows_add(comparing->rows, &hits);
}

/* Of a rival that has failed at one, the mean says so. */
static void add_up(struct played *sum, const struct played *played)
{
        sum->leased += log(played->leased);
        for (unsigned i = 0; i < N_KINDS; i++) {
                sum->ratios[i] += log(played->ratios[i]);
                if (!played->r[i] || sum->r[i])
                        continue;
                sum->r[i] = played->r[i];
                memcpy(sum->rivals[i].note, played->rivals[i].note, ROW_NOTE_MAX);
        }
}

int compare_traces(struct comparing *comparing)
{
        unsigned n_files = comparing->options->n_files;
        struct played sum = {.hits = 0};
        int r = 0;

        for (unsigned i = 0; i < n_files && !r; i++) {
                struct played played = {.hits = 0};

                comparing_clear(comparing);
                play(comparing, comparing->options->files[i], &played);
                r = add_one(comparing, comparing->options->files[i], &played);
                add_up(&sum, &played);
        }
        if (r || n_files < 2 || sum.r[0])
                return r;
        for (unsigned i = 0; i < N_KINDS; i++)
                sum.ratios[i] = exp(sum.ratios[i] / n_files);
        sum.leased = exp(sum.leased / n_files);
        r = add_ours(comparing, "reserved_mean", &sum, 1.1);
        return r ? r : add_beside(comparing, "held_mean", &sum);
}
