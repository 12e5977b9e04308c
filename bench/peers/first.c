/* Where the time of a process's first block goes: each of the driver's calls that the library makes for it, beside
 * the same for a second block. The library's table of the driver is given calls that look at the clock. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/peers/blocks.h"
#include "bench/peers/comparing.h"
#include "bench/timing.h"
#include "client/client.h"

#define N_TURNS 5
#define SECONDS 10

enum call {
#define FIRST_CALL(call, parameters, arguments) CALL_##call,
#include "bench/peers/first_calls.def"
#undef FIRST_CALL
        N_CALLS,
};

static const char *const names[] = {
#define FIRST_CALL(call, parameters, arguments) [CALL_##call] = #call,
#include "bench/peers/first_calls.def"
#undef FIRST_CALL
};

/* Of an allocation. */
struct spent {
        unsigned n[N_CALLS];
        double ns[N_CALLS];
        double all_ns;
};

static struct cuda real;
static pthread_t caller;
static struct spent *spent; /* NULL: nobody allocates */

static void note(enum call call, uint64_t start)
{
        uint64_t end = clock_now_ns();

        if (!spent || !pthread_equal(caller, pthread_self()))
                return;
        spent->n[call]++;
        spent->ns[call] += (double)(end - start);
}

#define FIRST_CALL(call, parameters, arguments)        \
        static CUresult timed_##call parameters        \
        {                                              \
                uint64_t start = clock_now_ns();       \
                CUresult result = real.call arguments; \
                                                       \
                note(CALL_##call, start);              \
                return result;                         \
        }
#include "bench/peers/first_calls.def"
#undef FIRST_CALL

static void look_on(struct cuda *cuda)
{
        caller = pthread_self();
        if (real.cuInit)
                return;
        real = *cuda;
#define FIRST_CALL(call, parameters, arguments) \
        if (real.call)                          \
                cuda->call = timed_##call;
#include "bench/peers/first_calls.def"
#undef FIRST_CALL
}

static int allocate(struct player *player, uint64_t n_bytes, struct spent *ret_spent)
{
        uint64_t start = clock_now_ns();
        void *pointer;
        int r;

        spent = ret_spent;
        r = player->allocator->alloc(player, 0, n_bytes, &pointer);
        spent = NULL;
        ret_spent->all_ns = (double)(clock_now_ns() - start);
        return r;
}

static struct spent first, second;

/* calls BYTES: ns of the first allocation, ns of a second one beside it, ns to connect, number of calls. */
int order_calls(struct player *player, const char *argument, double ret_numbers[static 4])
{
        struct gpumem_client *client = player->self;
        uint64_t n_bytes = strtoull(argument, NULL, 10);
        int r;

        look_on(&client->cuda);
        r = allocate(player, n_bytes, &first);
        if (!r)
                r = allocate(player, n_bytes, &second);
        ret_numbers[0] = first.all_ns;
        ret_numbers[1] = second.all_ns;
        ret_numbers[2] = player->connect_ns;
        ret_numbers[3] = N_CALLS;
        return r;
}

/* call N: of that one, how often in the first and ns in all; the same in the second. */
int order_call(struct player *player, const char *argument, double ret_numbers[static 4])
{
        unsigned call = (unsigned)strtoul(argument, NULL, 10);

        (void)player;
        if (call >= N_CALLS)
                return -EINVAL;
        ret_numbers[0] = first.n[call];
        ret_numbers[1] = first.ns[call];
        ret_numbers[2] = second.n[call];
        ret_numbers[3] = second.ns[call];
        return 0;
}

/* What the turns found: of both allocations. */
struct found {
        struct samples all[2], connect, rest[2];
        struct samples calls[N_CALLS][2];
        double n[N_CALLS][2];
};

static int ask_calls(struct rival *rival, struct found *found, double *rest)
{
        double numbers[RIVAL_NUMBERS_MAX];
        char order[32];
        int r = 0;

        for (unsigned i = 0; i < N_CALLS && !r; i++) {
                (void)snprintf(order, sizeof(order), "call %u", i);
                r = rival_ask(rival, order, SECONDS, numbers);
                for (unsigned which = 0; which < 2 && !r; which++) {
                        found->n[i][which] = numbers[2 * which];
                        samples_add(&found->calls[i][which], numbers[2 * which + 1]);
                        rest[which] -= numbers[2 * which + 1];
                }
        }
        return r;
}

static int ask(struct rival *rival, struct found *found)
{
        double numbers[RIVAL_NUMBERS_MAX], rest[2];
        int r = rival_ask(rival, "calls 20971520", SECONDS, numbers);

        if (r)
                return r;
        samples_add(&found->connect, numbers[2]);
        for (unsigned which = 0; which < 2; which++) {
                rest[which] = numbers[which];
                samples_add(&found->all[which], numbers[which]);
        }
        r = ask_calls(rival, found, rest);
        for (unsigned which = 0; which < 2 && !r; which++)
                samples_add(&found->rest[which], rest[which]);
        return r;
}

static int add(struct comparing *comparing, const char *what, struct samples *value,
               struct samples *baseline)
{
        struct row row = {.unit = "ns",
                          .value = samples_median(value),
                          .baseline = baseline ? samples_median(baseline) : 0};

        (void)snprintf(row.name, ROW_NAME_MAX, "first_%s", what);
        return rows_add(comparing->rows, &row);
}

static int report(struct comparing *comparing, struct found *found)
{
        char what[ROW_NAME_MAX];
        int r = add(comparing, "connect", &found->connect, NULL);

        if (!r)
                r = add(comparing, "20MiB_beside_second", &found->all[0], &found->all[1]);
        for (unsigned i = 0; i < N_CALLS && !r; i++) {
                if (!found->n[i][0] && !found->n[i][1])
                        continue;
                (void)snprintf(what, sizeof(what), "%s_%gx_%gx", names[i] + 2, found->n[i][0],
                               found->n[i][1]);
                r = add(comparing, what, &found->calls[i][0], &found->calls[i][1]);
        }
        return r ? r : add(comparing, "without_the_driver", &found->rest[0], &found->rest[1]);
}

int compare_first(struct comparing *comparing)
{
        unsigned n = comparing->options->effort == EFFORT_FULL ? N_TURNS : 1;
        struct found found = {.n = {{0}}};
        struct rival rival = RIVAL_NULL;
        int r = 0;

        for (unsigned i = 0; i < n && !r; i++) {
                r = rival_start(RIVAL_GPUMEMD, &comparing->setup, &rival);
                if (!r)
                        r = ask(&rival, &found);
                rival_end(&rival);
        }
        if (comparing_ours(comparing, r))
                return comparing_add_note(comparing, "first", "", "gpumemd", rival.note);
        return report(comparing, &found);
}
