/* peers: gpumemd beside others that serve GPU memory, all as child processes, in one run. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/peers/comparing.h"
#include "bench/peers/turns.h"
#include "bench/timing.h"

/* For all of it, if nothing else is said. */
#define SECONDS_MAX 250

/* PyTorch's C++ may take. */
#define SECONDS_COMPILE 120

#define N_TURNS 15

static int compare_hot(struct comparing *comparing)
{
        static const struct against against[] = {{RIVAL_TORCH, NULL, 0.25},
                                                 {RIVAL_ASYNC, NULL, 0},
                                                 {RIVAL_CUPY, NULL, 0},
                                                 {RIVAL_DRIVER, NULL, 0}};
        static const struct turns hot = {.name = "hot",
                                         .unit = "ns",
                                         .order = "hot",
                                         .n_turns = N_TURNS,
                                         .seconds = 20,
                                         .limit = ROW_AT_MOST,
                                         .n_against = ARRAY_SIZE(against),
                                         .against = against};
        struct turns random = hot;
        int r = turns_compare(comparing, &hot);

        random.name = random.order = "random";
        return r ? r : turns_compare(comparing, &random);
}

/* In fresh processes: what 16 threads leave cached takes a quarter of a device. */
static int compare_threads(struct comparing *comparing)
{
        static const struct against against[] = {
                {RIVAL_TORCH, NULL, 0}, {RIVAL_ASYNC, NULL, 0}, {RIVAL_DRIVER, NULL, 0}};
        static const unsigned counts[] = {8, 16};
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(counts) && !r; i++) {
                char name[ROW_NAME_MAX], order[ROW_NAME_MAX];
                const struct turns turns = {.name = name,
                                            .unit = "/us",
                                            .order = order,
                                            .processes = TURNS_FRESH,
                                            .n_turns = 3,
                                            .seconds = 15,
                                            .n_against = ARRAY_SIZE(against),
                                            .against = against};

                (void)snprintf(name, sizeof(name), "threads_%u", counts[i]);
                (void)snprintf(order, sizeof(order), "threads %u", counts[i]);
                r = turns_compare(comparing, &turns);
        }
        return r;
}

/* `order`: of gpumemd. */
static int compare_block(struct comparing *comparing, const char *order, const char *size,
                         uint64_t n_bytes, double bound)
{
        const struct against against = {RIVAL_DRIVER, NULL, bound};
        char name[ROW_NAME_MAX], theirs[ROW_NAME_MAX], ours[ROW_NAME_MAX];
        const struct turns turns = {.name = name,
                                    .unit = "ns",
                                    .order = theirs,
                                    .our_order = ours,
                                    .n_turns = 7,
                                    .seconds = 20,
                                    .limit = ROW_AT_MOST,
                                    .n_against = 1,
                                    .against = &against};

        (void)snprintf(name, sizeof(name), "%s_%s", order, size);
        (void)snprintf(theirs, sizeof(theirs), "cycle %llu", (unsigned long long)n_bytes);
        (void)snprintf(ours, sizeof(ours), "%s %llu", order, (unsigned long long)n_bytes);
        return turns_compare(comparing, &turns);
}

/* Blocks from a warm pool. */
static int compare_blocks(struct comparing *comparing)
{
        static const struct {
                const char *size;
                uint64_t n_bytes;
                double bound; /* 0: none */
        } sizes[] = {{"2MiB", 2 * MIB, 0},
                     {"20MiB", 20 * MIB, 0},
                     {"256MiB", 256 * MIB, 1.25},
                     {"1GiB", GIB, 0.5},
                     {"8GiB", 8 * GIB, 0.5}};
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(sizes) && !r; i++) {
                r = compare_block(comparing, "block", sizes[i].size, sizes[i].n_bytes,
                                  sizes[i].bound);
                if (!r)
                        r = compare_block(comparing, "known", sizes[i].size, sizes[i].n_bytes, 0.2);
        }
        return r;
}

static int compare_drop(struct comparing *comparing)
{
        static const struct against against[] = {
                {RIVAL_TORCH, NULL, 0}, {RIVAL_ASYNC, NULL, 0}, {RIVAL_CUPY, NULL, 0}};
        static const struct turns turns = {.name = "free_all_4GiB",
                                           .unit = "ns",
                                           .order = "drop",
                                           .n_turns = 5,
                                           .seconds = 20,
                                           .n_against = ARRAY_SIZE(against),
                                           .against = against};

        return turns_compare(comparing, &turns);
}

/* From the start of the process to 20 MiB of the device, and the allocation alone. */
static int compare_starts(struct comparing *comparing)
{
        static const struct against against[] = {{RIVAL_TORCH, "torch_cpp", 0},
                                                 {RIVAL_TORCH_PYTHON, NULL, 0},
                                                 {RIVAL_CUPY, NULL, 0},
                                                 {RIVAL_DRIVER, NULL, 0}};
        static const struct turns start = {.name = "start",
                                           .unit = "ns",
                                           .order = "first 20971520",
                                           .processes = TURNS_START,
                                           .n_turns = 3,
                                           .seconds = 30,
                                           .n_against = ARRAY_SIZE(against),
                                           .against = against};
        struct turns first = start;
        int r = turns_compare(comparing, &start);

        first.name = "first_block";
        first.processes = TURNS_FRESH;
        return r ? r : turns_compare(comparing, &first);
}

/* In this order; the first ones do without PyTorch, which is being compiled. */
static const struct {
        const char *name;
        int (*compare)(struct comparing *comparing);
} comparisons[] = {
        {"clients", compare_clients}, {"blocks", compare_blocks}, {"first", compare_first},
        {"hot", compare_hot},         {"starts", compare_starts}, {"threads", compare_threads},
        {"killed", compare_killed},   {"traces", compare_traces}, {"fleets", compare_fleets},
        {"pinned", compare_pinned},   {"drop", compare_drop},
};

#define N_WITHOUT_TORCH 3

struct chosen {
        unsigned which[ARRAY_SIZE(comparisons)];
        unsigned n;
};

static int choose_one(const char *name, size_t n_name, struct chosen *chosen)
{
        for (unsigned i = 0; i < ARRAY_SIZE(comparisons); i++) {
                if (strlen(comparisons[i].name) != n_name ||
                    memcmp(comparisons[i].name, name, n_name) != 0)
                        continue;
                if (chosen->n < ARRAY_SIZE(chosen->which))
                        chosen->which[chosen->n++] = i;
                return 0;
        }
        (void)fprintf(stderr,
                      "gpumem-bench: --only \"%.*s\": there is no such comparison; allowed:",
                      (int)n_name, name);
        for (unsigned i = 0; i < ARRAY_SIZE(comparisons); i++)
                (void)fprintf(stderr, "%s%s", i ? ", " : " ", comparisons[i].name);
        (void)fputs("\n", stderr);
        return -EINVAL;
}

/* All of them, or those of a list, with commas, in its order. */
static int choose(const char *only, struct chosen *ret_chosen)
{
        struct chosen chosen = {.n = 0};
        int r = 0;

        if (!only) {
                for (; chosen.n < ARRAY_SIZE(comparisons); chosen.n++)
                        chosen.which[chosen.n] = chosen.n;
        }
        while (only && !r) {
                size_t n = strcspn(only, ",");

                r = choose_one(only, n, &chosen);
                only = only[n] ? only + n + 1 : NULL;
        }
        if (!r)
                *ret_chosen = chosen;
        return r;
}

/* What was found so far is told at once, in case that somebody ends this. */
static int compare_one(struct comparing *comparing, unsigned i)
{
        struct rows *rows = comparing->rows, found = ROWS_NULL;
        unsigned n_before = rows->n;
        int r;

        if (clock_now_ns() > comparing->setup.deadline_ns)
                return comparing_add_note(comparing, comparisons[i].name, "", "gpumem-bench",
                                          "there was no time left for it");
        (void)fprintf(stderr, "gpumem-bench: peers: %s\n", comparisons[i].name);
        comparing_clear(comparing);
        r = comparisons[i].compare(comparing);
        found.rows = rows->rows + n_before;
        found.n = rows->n - n_before;
        return r ? r : rows_print_table(&found, stderr);
}

static bool needs_torch(const struct chosen *chosen)
{
        bool needs = false;

        for (unsigned i = 0; i < chosen->n; i++)
                needs = needs || chosen->which[i] >= N_WITHOUT_TORCH;
        return needs;
}

/* If it is not there, those who ask for it hear why. */
static void await_torch(struct rival *torch)
{
        if (torch->pid)
                (void)rival_hear_ready(torch, SECONDS_COMPILE);
        rival_end(torch);
}

static int compare_all(struct comparing *comparing, const struct chosen *chosen)
{
        struct rival torch = RIVAL_NULL;
        int r = 0;

        if (needs_torch(chosen))
                (void)rival_spawn(RIVAL_TORCH, &comparing->setup, &torch);
        for (unsigned i = 0; i < chosen->n && !r; i++) {
                if (chosen->which[i] >= N_WITHOUT_TORCH)
                        await_torch(&torch);
                r = compare_one(comparing, chosen->which[i]);
        }
        rival_end(&torch);
        return r;
}

static void remove_folder(const char *folder)
{
        char path[320];

        (void)snprintf(path, sizeof(path), "%s/%s", folder, RIVAL_TORCH_PROGRAM);
        (void)unlink(path);
        (void)rmdir(folder);
}

int command_peers(const struct options *options, struct rows *rows)
{
        const char *place = secure_getenv("TMPDIR");
        double seconds = options->seconds > 0 ? options->seconds : SECONDS_MAX;
        char folder[256];
        struct comparing comparing = {
                .options = options,
                .setup = {.socket_path = options->socket_path,
                          .scripts = options->peers_path,
                          .folder = folder,
                          .deadline_ns = clock_now_ns() + (uint64_t)(seconds * 1e9)},
                .rows = rows};
        struct chosen chosen;
        int r;

        r = choose(options->only, &chosen);
        if (r)
                return r;
        (void)snprintf(folder, sizeof(folder), "%s/gpumem-peers-XXXXXX",
                       place && *place ? place : "/tmp");
        if (!mkdtemp(folder)) {
                (void)fprintf(stderr, "gpumem-bench: %s: %s\n", folder, strerror(errno));
                return err_errno();
        }
        /* A child that has ended does not read what it is told. */
        (void)signal(SIGPIPE, SIG_IGN);
        r = compare_all(&comparing, &chosen);
        remove_folder(folder);
        return r ? r : comparing.r_ours;
}
