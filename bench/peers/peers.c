/* SPDX-License-Identifier: Apache-2.0 */
/* peers: gpumemd beside other allocators of GPU memory, all as child processes, in one run. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/bare.h"
#include "bench/peers/compare.h"

/* Default time limit for all comparisons. */
#define SECONDS_MAX 250

/* Time limit for compiling PyTorch's C++. */
#define SECONDS_COMPILE 120

#define AGAINST(list) .n_against = ARRAY_SIZE(list), .against = (list)

static const struct against patterns_against[] = {
        {RIVAL_TORCH_CPP, 0.3}, {RIVAL_ASYNC, 0}, {RIVAL_CUPY, 0}, {RIVAL_DRIVER, 0}};
static const struct against hot_handle_against[] = {{RIVAL_TORCH_CPP, 0.25}, {RIVAL_DRIVER, 0}};
static const struct against random_handle_against[] = {{RIVAL_TORCH_CPP, 0.22}, {RIVAL_DRIVER, 0}};
static const struct against threads_against[] = {
        {RIVAL_TORCH_CPP, 0}, {RIVAL_ASYNC, 0}, {RIVAL_DRIVER, 0}};
static const struct against first_against[] = {
        {RIVAL_TORCH_CPP, 0}, {RIVAL_TORCH, 0}, {RIVAL_DRIVER, 0}, {RIVAL_CUPY, 0}};
static const struct against small_against[] = {{RIVAL_DRIVER, 0}};
static const struct against large_against[] = {{RIVAL_DRIVER, 1.25}};
static const struct against huge_against[] = {{RIVAL_DRIVER, 0.5}};
static const struct against back_against[] = {{RIVAL_CUPY, 0}, {RIVAL_DRIVER, 0}};
static const struct against known_against[] = {{RIVAL_DRIVER, 0.2}, {RIVAL_ECHO, 0}};

#define PATTERN(pattern, rows, kind, list)                                                 \
        {                                                                                  \
                .name = rows, .ours = kind, .unit = "ns", .order = pattern, .n_turns = 15, \
                .seconds = 20, AGAINST(list)                                               \
        }

/* In fresh processes, since 16 threads leave a quarter of a device cached. */
#define THREADS(n)                                                                              \
        {                                                                                       \
                .name = "threads_" n, .unit = "/us", .order = "threads " n,                     \
                .process = PROCESS_FRESH, .n_turns = 3, .seconds = 15, AGAINST(threads_against) \
        }

#define BLOCK(how, size, n_bytes, list)                                                     \
        {                                                                                   \
                .name = how "_" size, .unit = "ns", .order = how " " n_bytes, .n_turns = 7, \
                .seconds = 20, AGAINST(list)                                                \
        }

static const struct measurement hot[] = {
        PATTERN("hot", "hot", RIVAL_GPUMEMD, patterns_against),
        PATTERN("hot", "hot_handle", RIVAL_HANDLE, hot_handle_against), THREADS("8"),
        THREADS("16")};

static const struct measurement replaced[] = {
        PATTERN("random", "random", RIVAL_GPUMEMD, patterns_against),
        PATTERN("random", "random_handle", RIVAL_HANDLE, random_handle_against)};

/* Blocks of a warm pool: leased and mapped; leased while the client still maps them; and by the library, which
 * allocates, frees and flushes. Then 4 GiB go back to the driver. */
static const struct measurement block[] = {
        BLOCK("block", "2MiB", "2097152", small_against),
        BLOCK("known", "2MiB", "2097152", known_against),
        BLOCK("block", "20MiB", "20971520", small_against),
        BLOCK("known", "20MiB", "20971520", known_against),
        BLOCK("block", "256MiB", "268435456", large_against),
        BLOCK("known", "256MiB", "268435456", known_against),
        BLOCK("block", "1GiB", "1073741824", huge_against),
        BLOCK("known", "1GiB", "1073741824", known_against),
        BLOCK("block", "8GiB", "8589934592", huge_against),
        BLOCK("known", "8GiB", "8589934592", known_against),
        BLOCK("alloc", "2MiB", "2097152", small_against),
        BLOCK("alloc", "20MiB", "20971520", small_against),
        BLOCK("alloc", "256MiB", "268435456", small_against),
        BLOCK("alloc", "1GiB", "1073741824", small_against),
        {.name = "back_4GiB",
         .unit = "ns",
         .order = "back",
         .n_turns = 7,
         .seconds = 20,
         AGAINST(back_against)},
};

/* 20 MiB in a fresh process: the allocation, and the time from the start of the process to its end. */
static const struct measurement first[] = {{.name = "first_block",
                                            .unit = "ns",
                                            .order = "first 20971520",
                                            .process = PROCESS_FRESH,
                                            .start = "start",
                                            .n_turns = 3,
                                            .seconds = 30,
                                            AGAINST(first_against)}};

/* In this order. The first ones do not need PyTorch's C++, which is compiled meanwhile. */
static const struct comparison {
        const char *name;
        bool needs_cpp;
        unsigned n;
        const struct measurement *measurements; /* NULL: compare_node */
} comparisons[] = {
        {"block", false, ARRAY_SIZE(block), block},       {"node", false, 0, NULL},
        {"first", true, ARRAY_SIZE(first), first},        {"hot", true, ARRAY_SIZE(hot), hot},
        {"random", true, ARRAY_SIZE(replaced), replaced},
};

static bool is_chosen(const struct comparison *comparison, const char *only)
{
        return !only || strcmp(comparison->name, only) == 0;
}

int command_peers_check(const char *only)
{
        for (unsigned i = 0; i < ARRAY_SIZE(comparisons); i++) {
                if (is_chosen(&comparisons[i], only))
                        return 0;
        }
        (void)fprintf(stderr, "gpumem-bench: invalid --only \"%s\" (expected", only);
        for (unsigned i = 0; i < ARRAY_SIZE(comparisons); i++)
                (void)fprintf(stderr, "%s%s", i ? ", " : " ", comparisons[i].name);
        (void)fputs(")\n", stderr);
        return -EINVAL;
}

/* Frees what is cached for this tenant, so that a comparison begins with an empty cache. */
static void clear(const struct comparing *comparing)
{
        struct bare bare;

        if (bare_init(comparing->options, &bare))
                return;
        (void)bare_clear(&bare);
        bare_deinit(&bare);
}

/* Prints the results so far at once, in case the run is interrupted. */
static int compare_one(struct comparing *comparing, const struct comparison *comparison)
{
        struct rows *rows = comparing->rows, found = ROWS_NULL;
        unsigned n_before = rows->n;
        int r = 0;

        if (clock_now_ns() > comparing->setup.deadline_ns)
                return compare_add_note(comparing, comparison->name, "", "gpumem-bench",
                                        "no time was left for it");
        (void)fprintf(stderr, "gpumem-bench: peers: %s\n", comparison->name);
        clear(comparing);
        for (unsigned i = 0; i < comparison->n && !r; i++)
                r = compare_turns(comparing, &comparison->measurements[i]);
        if (!comparison->measurements)
                r = compare_node(comparing);
        found.rows = rows->rows + n_before;
        found.n = rows->n - n_before;
        return r ? r : rows_print_table(&found, stderr);
}

/* A failure is reported when the rival is asked for a number. */
static void await_cpp(struct rival *cpp)
{
        if (cpp->pid)
                (void)rival_hear_ready(cpp, SECONDS_COMPILE);
        rival_end(cpp);
}

static int compare_all(struct comparing *comparing)
{
        const char *only = comparing->options->only;
        struct rival cpp = RIVAL_NULL;
        bool needs_cpp = false;
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(comparisons); i++)
                needs_cpp |= is_chosen(&comparisons[i], only) && comparisons[i].needs_cpp;
        if (needs_cpp)
                (void)rival_spawn(RIVAL_TORCH_CPP, &comparing->setup, &cpp);
        for (unsigned i = 0; i < ARRAY_SIZE(comparisons) && !r; i++) {
                if (!is_chosen(&comparisons[i], only))
                        continue;
                if (comparisons[i].needs_cpp)
                        await_cpp(&cpp);
                r = compare_one(comparing, &comparisons[i]);
        }
        rival_end(&cpp);
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
        int r;

        (void)snprintf(folder, sizeof(folder), "%s/gpumem-peers-XXXXXX",
                       place && *place ? place : "/tmp");
        if (!mkdtemp(folder)) {
                (void)fprintf(stderr, "gpumem-bench: %s: %s\n", folder, strerror(errno));
                return err_errno();
        }
        /* A child that has ended does not read its orders. */
        (void)signal(SIGPIPE, SIG_IGN);
        r = compare_all(&comparing);
        remove_folder(folder);
        return r ? r : comparing.r_ours;
}
