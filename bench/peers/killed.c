/* From SIGKILL of a process that holds six tenths of the device to another one that has as much. */
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/peers/comparing.h"
#include "bench/timing.h"

/* For an answer, and for all that one of them is asked: what one takes is not another one's. */
#define SECONDS     20
#define SECONDS_ALL 40

struct killing {
        struct rival_setup setup;
        struct rival holder, waiter;
        char note[ROW_NOTE_MAX];
};

static int note(struct killing *killing, const struct rival *rival, int r)
{
        if (r)
                (void)snprintf(killing->note, ROW_NOTE_MAX, "%s", rival->note);
        return r;
}

/* As much as two cannot have. */
static int choose_size(const struct comparing *comparing, char note[static ROW_NOTE_MAX],
                       uint64_t *ret_bytes)
{
        double numbers[RIVAL_NUMBERS_MAX];
        struct rival rival;
        int r = rival_start(RIVAL_DRIVER, &comparing->setup, &rival);

        if (!r)
                r = rival_ask(&rival, "memory", SECONDS, numbers);
        if (r)
                (void)snprintf(note, ROW_NOTE_MAX, "%s", rival.note);
        if (!r)
                *ret_bytes = (uint64_t)(numbers[0] * 0.6) / (2 * MIB) * (2 * MIB);
        rival_end(&rival);
        return r;
}

/* Both at once: some take seconds to start. */
static int start(enum rival_kind kind, struct killing *killing)
{
        struct rival *const both[] = {&killing->holder, &killing->waiter};
        int r = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(both) && !r; i++)
                r = note(killing, both[i], rival_spawn(kind, &killing->setup, both[i]));
        for (unsigned i = 0; i < ARRAY_SIZE(both) && !r; i++)
                r = note(killing, both[i], rival_hear_ready(both[i], SECONDS_ALL));
        return r;
}

/* The one has it, as soon as what others had before is free, and the other one cannot have it. */
static int prepare(enum rival_kind kind, uint64_t n_bytes, struct killing *killing)
{
        double numbers[RIVAL_NUMBERS_MAX];
        char hold[32], wait[32];
        int r = start(kind, killing);

        (void)snprintf(hold, sizeof(hold), "hold %llu", (unsigned long long)n_bytes);
        (void)snprintf(wait, sizeof(wait), "wait %llu", (unsigned long long)n_bytes);
        if (!r)
                r = note(killing, &killing->holder,
                         rival_ask(&killing->holder, wait, SECONDS, numbers));
        if (r)
                return r;
        r = rival_ask(&killing->waiter, hold, SECONDS, numbers);
        if (r == -ENODEV)
                return 0;
        if (!r)
                (void)snprintf(killing->note, ROW_NOTE_MAX, "there was room for both");
        return r ? note(killing, &killing->waiter, r) : -EBUSY;
}

static int kill_and_wait(struct killing *killing, uint64_t n_bytes, double *ret_ns)
{
        const struct timespec until_it_waits = {.tv_nsec = 100000000};
        double numbers[RIVAL_NUMBERS_MAX];
        char wait[32];
        uint64_t start;
        int r;

        (void)snprintf(wait, sizeof(wait), "wait %llu", (unsigned long long)n_bytes);
        r = note(killing, &killing->waiter, rival_tell(&killing->waiter, wait));
        (void)nanosleep(&until_it_waits, NULL);
        start = clock_now_ns();
        if (!r)
                r = note(killing, &killing->holder, rival_kill(&killing->holder));
        if (!r)
                r = note(killing, &killing->waiter, rival_hear(&killing->waiter, SECONDS, numbers));
        *ret_ns = (double)(clock_now_ns() - start);
        return r;
}

static int measure(struct comparing *comparing, enum rival_kind kind, uint64_t n_bytes,
                   struct killing *killing, double *ret_ns)
{
        uint64_t end_ns = clock_now_ns() + SECONDS_ALL * UINT64_C(1000000000);
        int r;

        *killing = (struct killing){
                .setup = comparing->setup, .holder = RIVAL_NULL, .waiter = RIVAL_NULL};
        if (killing->setup.deadline_ns > end_ns)
                killing->setup.deadline_ns = end_ns;
        (void)fprintf(stderr, "gpumem-bench: peers: killed: %s\n", rival_name(kind));
        comparing_clear(comparing);
        r = prepare(kind, n_bytes, killing);
        if (!r)
                r = kill_and_wait(killing, n_bytes, ret_ns);
        rival_end(&killing->waiter);
        rival_end(&killing->holder);
        return r;
}

int compare_killed(struct comparing *comparing)
{
        static const enum rival_kind others[] = {RIVAL_DRIVER, RIVAL_CUPY, RIVAL_TORCH};
        static const char name[] = "killed";
        struct killing killing;
        uint64_t n_bytes;
        double ours;
        int r = choose_size(comparing, killing.note, &n_bytes);

        if (r)
                return comparing_add_note(comparing, name, "", rival_name(RIVAL_DRIVER),
                                          killing.note);
        r = measure(comparing, RIVAL_GPUMEMD, n_bytes, &killing, &ours);
        if (comparing_ours(comparing, r))
                return comparing_add_note(comparing, name, "", "gpumemd", killing.note);
        for (unsigned i = 0; i < ARRAY_SIZE(others) && !r; i++) {
                const char *peer = rival_name(others[i]);
                struct row row = {.unit = "ns", .value = ours};

                comparing_name(name, peer, &row);
                r = measure(comparing, others[i], n_bytes, &killing, &row.baseline)
                            ? comparing_add_note(comparing, name, peer, peer, killing.note)
                            : rows_add(comparing->rows, &row);
        }
        return r;
}
