/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of peer.h: host allocators under the patterns of the benchmarks. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/peer.h"
#include "bench/replace.h"
#include "bench/timing.h"

#define N_STEPS 4096

static int host_alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        (void)argument;
        *ret_pointer = malloc(n_bytes);
        return *ret_pointer ? 0 : -ENOMEM;
}

static int host_free(void *argument, void *pointer)
{
        (void)argument;
        free(pointer);
        return 0;
}

static int pair_steps(void *state, unsigned n_steps)
{
        (void)state;
        for (unsigned i = 0; i < n_steps; i++) {
                void *pointer = malloc(64);

                /* Or the compiler takes the pair out. */
                __asm__ volatile("" : "+r"(pointer) : : "memory");
                free(pointer);
        }
        return 0;
}

static int host_replace_steps(void *state, unsigned n_steps)
{
        return replace_steps(state, n_steps, host_alloc, host_free, NULL);
}

static const struct {
        timed_steps *steps;
        enum replace_sizes sizes;
        uint32_t divisor; /* 0: no live allocations */
} patterns[] = {
        [PEER_PAIR] = {pair_steps, REPLACE_WIDE, 0},
        [PEER_WIDE] = {host_replace_steps, REPLACE_WIDE, 1024},
        [PEER_SMALL] = {host_replace_steps, REPLACE_SMALL, 64},
};

static const char *allocator_name(void)
{
        enum peer_allocator allocator = PEER_GLIBC;

        if (dlsym(RTLD_DEFAULT, "mi_malloc"))
                allocator = PEER_MIMALLOC;
        else if (dlsym(RTLD_DEFAULT, "mallctl"))
                allocator = PEER_JEMALLOC;
        return peer_name(allocator);
}

static int answer(timed_steps *steps, void *state)
{
        double ns;
        int r;

        r = time_repetition(steps, state, N_STEPS, &ns);
        if (!r && (printf("%.4f\n", ns) < 0 || fflush(stdout) == EOF))
                r = err_errno();
        return r;
}

static int serve(enum peer_pattern pattern, uint32_t n_live)
{
        struct replace replace = {.n_live = 0};
        int r = start_sleeper();

        if (!r && patterns[pattern].divisor)
                r = replace_init(&replace, n_live, patterns[pattern].sizes,
                                 patterns[pattern].divisor);
        if (!r)
                r = replace_fill(&replace, host_alloc, NULL);
        if (!r && (puts(allocator_name()) == EOF || fflush(stdout) == EOF))
                r = err_errno();
        while (!r && getchar() != EOF)
                r = answer(patterns[pattern].steps, &replace);
        return r;
}

int peer_main(char **arguments)
{
        unsigned long pattern = arguments[0] ? strtoul(arguments[0], NULL, 10) : PEER_N_PATTERNS;

        if (pattern >= PEER_N_PATTERNS || !arguments[1])
                return EXIT_FAILURE;
        return serve((enum peer_pattern)pattern, (uint32_t)strtoul(arguments[1], NULL, 10))
                       ? EXIT_FAILURE
                       : EXIT_SUCCESS;
}
