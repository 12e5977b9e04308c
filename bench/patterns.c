/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/patterns.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"

#define N_EVENTS_MAX 400000

/* A trace that is being made, and its own random numbers (splitmix64). */
struct making {
        struct trace trace;
        uint64_t random;
};

static const char *const names[] = {"doubling", "growth",    "lifetimes",
                                    "plus_one", "survivors", "bursts"};

const char *pattern_name(enum pattern pattern)
{
        return names[pattern];
}

static uint64_t below(struct making *making, uint64_t n)
{
        uint64_t x = making->random += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return (x ^ x >> 31) % n;
}

/* Between the two powers of two; each doubling is as likely as any other. */
static uint64_t size_between(struct making *making, unsigned least_bit, unsigned most_bit)
{
        uint64_t base = UINT64_C(1) << (least_bit + below(making, most_bit - least_bit));

        return base + below(making, base);
}

static uint32_t add(struct making *making, uint64_t n_bytes)
{
        struct trace *trace = &making->trace;

        if (trace->n_events == N_EVENTS_MAX)
                return UINT32_MAX;
        trace->events[trace->n_events++] = (struct trace_event){
                .kind = TRACE_ALLOC, .id = trace->n_ids, .n_bytes = n_bytes};
        return trace->n_ids++;
}

static void drop(struct making *making, uint32_t id)
{
        struct trace *trace = &making->trace;

        if (id != UINT32_MAX && trace->n_events < N_EVENTS_MAX)
                trace->events[trace->n_events++] = (struct trace_event){.kind = TRACE_FREE,
                                                                        .id = id};
}

/* A place holds one allocation after another. */
struct place {
        uint32_t id;
        uint64_t n_bytes;
};

#define EMPTY ((struct place){.id = UINT32_MAX})

static void fill(struct making *making, struct place *place, uint64_t n_bytes)
{
        *place = (struct place){add(making, n_bytes), n_bytes};
}

/* The new allocation comes first, as in a copy from the old one. */
static void replace(struct making *making, struct place *place, uint64_t n_bytes)
{
        struct place old = *place;

        fill(making, place, n_bytes);
        drop(making, old.id);
}

#define N_TENSORS    24
#define N_STEPS_GROW 30000

/* A tensor above 512 MiB begins again. */
static void grow(struct making *making, uint64_t times, uint64_t parts)
{
        struct place tensors[N_TENSORS];

        for (unsigned i = 0; i < N_TENSORS; i++)
                fill(making, &tensors[i], size_between(making, 20, 24));
        for (unsigned i = 0; i < N_STEPS_GROW; i++) {
                struct place *tensor = &tensors[below(making, N_TENSORS)];

                if (tensor->n_bytes <= 512 * MIB) {
                        replace(making, tensor, tensor->n_bytes * times / parts);
                        continue;
                }
                drop(making, tensor->id);
                fill(making, tensor, size_between(making, 20, 24));
        }
}

#define N_SHORT           100
#define N_LONG            1000
#define N_STEPS_LIFETIMES 100000

static void mix_lifetimes(struct making *making)
{
        struct place brief[N_SHORT], lasting[N_LONG];

        for (unsigned i = 0; i < N_SHORT; i++)
                brief[i] = EMPTY;
        for (unsigned i = 0; i < N_LONG; i++)
                lasting[i] = EMPTY;
        for (unsigned i = 0; i < N_STEPS_LIFETIMES; i++) {
                struct place *place = below(making, 10) ? &brief[below(making, N_SHORT)]
                                                        : &lasting[below(making, N_LONG)];

                drop(making, place->id);
                fill(making, place, size_between(making, 16, 26));
        }
}

#define N_ODD       400
#define N_STEPS_ODD 60000

static void add_one(struct making *making)
{
        struct place places[N_ODD];

        for (unsigned i = 0; i < N_ODD; i++)
                places[i] = EMPTY;
        for (unsigned i = 0; i < N_STEPS_ODD; i++) {
                struct place *place = &places[below(making, N_ODD)];

                drop(making, place->id);
                fill(making, place, (UINT64_C(1) << (14 + below(making, 14))) + 1);
        }
}

#define RISE_BYTES     (12 * GIB)
#define SURVIVOR_BYTES (12 * MIB) /* of other allocations for each small one */
#define N_RISES        6
#define N_RISING       16384
#define N_SURVIVORS    1024  /* at most, from the last rise */
#define N_STEPS_LOW    15000 /* after a fall */
#define N_WORKING      64

/* What the program works with all the time. */
static void work(struct making *making, struct place working[static N_WORKING])
{
        for (unsigned i = 0; i < N_STEPS_LOW; i++) {
                struct place *place = &working[below(making, N_WORKING)];

                drop(making, place->id);
                fill(making, place, size_between(making, 18, 24));
        }
}

static unsigned rise(struct making *making, struct place rising[static N_RISING],
                     struct place survivors[static N_SURVIVORS])
{
        uint64_t n_bytes = 0, n_until = SURVIVOR_BYTES;
        unsigned n = 0, n_survivors = 0;

        while (n_bytes < RISE_BYTES && n < N_RISING) {
                fill(making, &rising[n], size_between(making, 19, 24));
                n_bytes += rising[n++].n_bytes;
                if (n_bytes < n_until || n_survivors == N_SURVIVORS)
                        continue;
                n_until = n_bytes + SURVIVOR_BYTES;
                drop(making, survivors[n_survivors].id);
                fill(making, &survivors[n_survivors++], size_between(making, 12, 16));
        }
        return n;
}

static int leave_survivors(struct making *making)
{
        struct place survivors[N_SURVIVORS], working[N_WORKING];
        struct place *rising = calloc(N_RISING, sizeof(*rising));

        if (!rising)
                return -ENOMEM;
        for (unsigned i = 0; i < N_SURVIVORS; i++)
                survivors[i] = EMPTY;
        for (unsigned i = 0; i < N_WORKING; i++)
                working[i] = EMPTY;
        for (unsigned round = 0; round < N_RISES; round++) {
                unsigned n = rise(making, rising, survivors);

                for (unsigned i = 0; i < n; i++)
                        drop(making, rising[i].id);
                work(making, working);
        }
        free(rising);
        return 0;
}

#define N_BURSTS     10
#define N_IN_BURST   40
#define N_BURST_LEFT 4096

static void burst(struct making *making)
{
        struct place tensors[N_IN_BURST], left[N_BURST_LEFT], working[N_WORKING];

        for (unsigned i = 0; i < N_BURST_LEFT; i++)
                left[i] = EMPTY;
        for (unsigned i = 0; i < N_WORKING; i++)
                working[i] = EMPTY;
        for (unsigned round = 0; round < N_BURSTS; round++) {
                for (unsigned i = 0; i < N_IN_BURST; i++) {
                        struct place *small = &left[below(making, N_BURST_LEFT)];

                        fill(making, &tensors[i], 64 * MIB + below(making, 512 * MIB));
                        drop(making, small->id);
                        fill(making, small, size_between(making, 12, 18));
                }
                for (unsigned i = 0; i < N_IN_BURST; i++)
                        drop(making, tensors[i].id);
                work(making, working);
        }
}

static int make(struct making *making, enum pattern pattern)
{
        switch (pattern) {
        case PATTERN_DOUBLING:
                grow(making, 2, 1);
                return 0;
        case PATTERN_GROWTH:
                grow(making, 3, 2);
                return 0;
        case PATTERN_LIFETIMES:
                mix_lifetimes(making);
                return 0;
        case PATTERN_PLUS_ONE:
                add_one(making);
                return 0;
        case PATTERN_SURVIVORS:
                return leave_survivors(making);
        case PATTERN_BURSTS:
                burst(making);
                return 0;
        case PATTERN_N:
                break;
        }
        return -EINVAL;
}

int pattern_make(enum pattern pattern, uint64_t seed, struct trace *ret_trace)
{
        struct making making = {.random = seed};
        int r;

        making.trace.events = calloc(N_EVENTS_MAX, sizeof(*making.trace.events));
        if (!making.trace.events)
                return -ENOMEM;
        r = make(&making, pattern);
        if (r) {
                trace_deinit(&making.trace);
                return r;
        }
        *ret_trace = making.trace;
        return 0;
}
