/* SPDX-License-Identifier: Apache-2.0 */
/* Compares bench/replay.c, which computes what the library would do, with the library. The same lines go
 * through a client with a daemon and through the replay. After each line both have leased, returned, moved, hit,
 * missed and reserved the same.
 *
 * Possible differences are removed. Time is simulated: in both, the budget and the waits depend on the
 * test's clock. GPU work ends when the test's clock says so: events are recorded, not queried. A daemon may
 * answer with a cached block an eighth larger than requested: the test asks for exact sizes, as the replay
 * does. A daemon that may have few files bounds the leases of a client, which then asks for larger ones: the test
 * leaves that out. A daemon that serves parts together may take other idle blocks for them: the test asks for one after
 * the other. Everything else is the library's own.
 *
 * The last part runs the library alone, with its simulated time. */
#include <time.h>

#include "bench/pairs.h"
#include "bench/replay.h"
#include "client/mapping/mapping.h"
#include "driver/cuda.h"
#include "driver/event.h"
#include "tests/live/worlds/solo.h"
#include "tests/random.h"

#define STREAMS_MAX 4
#define EVENTS_MAX  4096
#define LIVE_MAX    400

static struct cuda cuda;
static CUstream streams[STREAMS_MAX];
static uint64_t n_leases, n_moves;

/* The test's time; 0: it is the machine's. */
static struct {
        uint64_t now_us;
        uint64_t lag_us;
        unsigned n_events;
        struct {
                uint64_t event, over_at_us;
        } events[EVENTS_MAX];
} world;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);
int __real_event_record(const struct cuda *cuda, uint64_t context, void *stream,
                        struct work_event *event);
int __wrap_event_record(const struct cuda *cuda, uint64_t context, void *stream,
                        struct work_event *event);
enum event_state __wrap_event_ask(const struct cuda *cuda, const struct work_event *event);
int __real_link_call(struct link *link, struct frame *request, enum message_kind kind,
                     enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds);
int __wrap_link_call(struct link *link, struct frame *request, enum message_kind kind,
                     enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds);
int __wrap_link_call_together(struct link *link, struct link_exchange *exchanges, unsigned n,
                              enum message_kind kind, enum message_kind reply_kind);

int __real_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left);
int __wrap_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left);

void __wrap_heap_set_bound(struct heap_set *set, uint32_t n_leases_max);

void __wrap_heap_set_bound(struct heap_set *set, uint32_t n_leases_max)
{
        (void)set;
        (void)n_leases_max;
}

int __wrap_mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                        uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left)
{
        n_moves++;
        return __real_mapping_move(memory, peers, from, to, n_bytes, ret_is_gone, left);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
        if (!world.now_us || clock != CLOCK_MONOTONIC)
                return __real_clock_gettime(clock, time);
        *time = (struct timespec){.tv_sec = (time_t)(world.now_us / 1000000),
                                  .tv_nsec = (long)(world.now_us % 1000000 * 1000)};
        return 0;
}

/* Who waits for work looks from time to time: he wakes when there is something to see. */
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
        uint64_t first_us = UINT64_MAX;

        if (!world.now_us)
                return __real_clock_nanosleep(clock, flags, time, left);
        for (unsigned i = 0; i < world.n_events; i++) {
                uint64_t us = world.events[i].over_at_us;

                if (us > world.now_us && us < first_us)
                        first_us = us;
        }
        ck_assert_uint_ne(first_us, UINT64_MAX);
        world.now_us = first_us;
        return 0;
}

static unsigned find_event(uint64_t event)
{
        unsigned i = 0;

        while (i < world.n_events && world.events[i].event != event)
                i++;
        return i;
}

int __wrap_event_record(const struct cuda *driver, uint64_t context, void *stream,
                        struct work_event *event)
{
        int r = __real_event_record(driver, context, stream, event);
        unsigned i = find_event(event->handle);

        ck_assert_int_eq(r, 0);
        ck_assert_uint_lt(i, EVENTS_MAX);
        if (i == world.n_events)
                world.events[world.n_events++].event = event->handle;
        world.events[i].over_at_us = world.now_us + world.lag_us;
        return 0;
}

enum event_state __wrap_event_ask(const struct cuda *driver, const struct work_event *event)
{
        unsigned i = find_event(event->handle);

        (void)driver;
        ck_assert_uint_lt(i, world.n_events);
        return world.events[i].over_at_us <= world.now_us ? EVENT_OVER : EVENT_PENDING;
}

int __wrap_link_call(struct link *link, struct frame *request, enum message_kind kind,
                     enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds)
{
        int r;

        if (kind == MESSAGE_LEASE)
                request->lease.n_most_units = (uint32_t)(request->lease.n_bytes / (2 * MIB));
        r = __real_link_call(link, request, kind, reply_kind, ret_reply, ret_fds);
        n_leases += kind == MESSAGE_LEASE && !r;
        return r;
}

int __wrap_link_call_together(struct link *link, struct link_exchange *exchanges, unsigned n,
                              enum message_kind kind, enum message_kind reply_kind)
{
        int r = 0;

        for (unsigned i = 0; i < n && !r; i++) {
                struct link_exchange *exchange = &exchanges[i];

                exchange->request.lease.flags &= ~PROTO_LEASE_MORE;
                r = exchange->result = __wrap_link_call(link, &exchange->request, kind, reply_kind,
                                                        &exchange->reply, &exchange->fds);
        }
        return r;
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=16GiB", OPTIONS("--pinned-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        /* A thread would look when it gets to it. */
        ck_assert_int_eq(setenv("GPUMEM_SERVICE_THREAD", "0", 1), 0);
        solo_open(getuid());
        load_driver(&cuda);
        for (unsigned i = 0; i < STREAMS_MAX; i++)
                DRIVER(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
        n_leases = n_moves = 0;
        world.n_events = 0;
}

static void stop(void)
{
        world.now_us = 0;
        gpumem_disconnect(client);
        for (unsigned i = 0; i < STREAMS_MAX; i++)
                DRIVER(cuStreamDestroy, streams[i]);
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

static enum gpumem_kind kind_of(const struct replay_options *options)
{
        return options->memory == REPLAY_DEVICE ? GPUMEM_DEVICE : GPUMEM_PINNED;
}

static int step(const struct trace_event *event, enum gpumem_kind kind, void *stream, void **live)
{
        struct gpumem_request request = request_in(stream, kind, event->n_bytes);

        return event->kind == TRACE_ALLOC ? gpumem_alloc(client, &request, live)
                                          : gpumem_free(client, *live, stream);
}

static void compare(const struct replay *replay, enum gpumem_kind kind, size_t line)
{
        struct gpumem_stats stats = nearest_stats(client, kind);
        struct replay_figures figures;

        replay_get(replay, &figures);
        ck_assert_msg(stats.n_hits == figures.hits && stats.n_misses == figures.misses &&
                              n_leases == figures.leases &&
                              n_leases - stats.n_blocks == figures.returns &&
                              n_moves == figures.moves &&
                              stats.n_reserved_bytes == replay_reserved(replay) &&
                              stats.n_reserved_peak_bytes == figures.peak_reserved &&
                              stats.n_requested_bytes == replay_live(replay) &&
                              stats.n_requested_peak_bytes == figures.peak_live,
                      "line %zu: library %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
                      " leases, %" PRIu64 " returns, %" PRIu64 " moves, %" PRIu64
                      " reserved; replay %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
                      ", %" PRIu64 ", %" PRIu64,
                      line, stats.n_hits, stats.n_misses, n_leases, n_leases - stats.n_blocks,
                      n_moves, stats.n_reserved_bytes, figures.hits, figures.misses, figures.leases,
                      figures.returns, figures.moves, replay_reserved(replay));
}

static void begin_time(uint64_t lag_us)
{
        struct timespec now;

        ck_assert_int_eq(__real_clock_gettime(CLOCK_MONOTONIC, &now), 0);
        world.now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        world.lag_us = lag_us;
}

/* The first n_lines of the trace in both. Returns the replay's figures. */
static struct replay_figures run(const struct trace *trace, size_t n_lines,
                                 const struct replay_options *options)
{
        void **live = calloc(trace->n_ids, sizeof(*live));
        struct replay_figures figures;
        struct replay *replay;

        ck_assert_ptr_nonnull(live);
        ck_assert_int_eq(replay_new(trace, options, &replay), 0);
        begin_time((uint64_t)options->lag_us);
        for (size_t i = 0; i < trace->n_events && i < n_lines; i++) {
                const struct trace_event *event = &trace->events[i];

                world.now_us += (uint64_t)options->us_per_line;
                ck_assert_int_eq(replay_step(replay), 0);
                ck_assert_int_eq(step(event, kind_of(options),
                                      streams[event->id % options->n_streams], &live[event->id]),
                                 0);
                compare(replay, kind_of(options), i);
        }
        replay_get(replay, &figures);
        (void)replay_free(replay);
        free(live);
        return figures;
}

/* Sizes of all magnitudes; now there is more of it, now less. */
static void make_trace(struct trace *trace, size_t n_lines, uint64_t n_bytes_max)
{
        struct test_random random = test_random_begin();
        uint32_t live[LIVE_MAX], n_live = 0;

        *trace = (struct trace){.events = calloc(n_lines, sizeof(*trace->events))};
        ck_assert_ptr_nonnull(trace->events);
        while (trace->n_events < n_lines) {
                struct trace_event *event = &trace->events[trace->n_events++];
                uint32_t n_wanted = trace->n_events / 500 % 2 ? LIVE_MAX / 4 : LIVE_MAX;

                if (test_random_below(&random, 2 * n_wanted) >= n_live && n_live < LIVE_MAX) {
                        *event = (struct trace_event){.kind = TRACE_ALLOC, .id = trace->n_ids++};
                        event->n_bytes = test_random_size(&random, n_bytes_max);
                        live[n_live++] = event->id;
                } else {
                        uint32_t i = (uint32_t)test_random_below(&random, n_live);

                        *event = (struct trace_event){.kind = TRACE_FREE, .id = live[i]};
                        live[i] = live[--n_live];
                }
        }
}

static struct replay_figures run_made(unsigned n_streams, unsigned lag_us, unsigned us_per_line)
{
        struct replay_options options = {.service = REPLAY_NO_THREAD,
                                         .n_streams = n_streams,
                                         .lag_us = lag_us,
                                         .us_per_line = us_per_line,
                                         .n_pool_bytes = daemon_device_bytes()};
        struct replay_figures figures;
        struct trace trace;

        make_trace(&trace, 6000, 16 * MIB);
        figures = run(&trace, trace.n_events, &options);
        trace_deinit(&trace);
        ck_assert_uint_gt(figures.hits, figures.misses);
        ck_assert_uint_gt(figures.misses, 0);
        ck_assert_uint_gt(figures.moves, 0);
        return figures;
}

TEST(one_stream)
{
        (void)run_made(1, 0, 10);
}

TEST(slow_lines_let_the_budget_fade)
{
        (void)run_made(1, 0, 1000);
}

TEST(streams_adopt_each_others_blocks)
{
        (void)run_made(STREAMS_MAX, 0, 10);
}

TEST(work_that_lasts_is_waited_for)
{
        ck_assert_uint_gt(run_made(1, 1000, 10).waits, 0);
}

TEST(streams_with_work_that_lasts)
{
        ck_assert_uint_gt(run_made(STREAMS_MAX, 10000, 10).waits, 0);
}

static void run_pinned(unsigned n_streams)
{
        struct replay_options options = {.service = REPLAY_NO_THREAD,
                                         .memory = REPLAY_PINNED,
                                         .n_streams = n_streams,
                                         .us_per_line = 1000,
                                         .n_pool_bytes = 256 * MIB};
        struct replay_figures figures;
        struct trace trace;

        make_trace(&trace, 3000, MIB);
        figures = run(&trace, trace.n_events, &options);
        trace_deinit(&trace);
        ck_assert_uint_gt(figures.leases, 1);
        ck_assert_uint_eq(figures.returns, 0);
}

TEST(pinned_memory)
{
        run_pinned(1);
}

TEST(pinned_memory_of_streams)
{
        run_pinned(STREAMS_MAX);
}

static void run_head(const char *name, size_t n_lines, unsigned n_streams, unsigned lag_us)
{
        const char *folder = getenv("GPUMEM_TEST_TRACES");
        struct replay_options options = {.service = REPLAY_NO_THREAD,
                                         .n_streams = n_streams,
                                         .lag_us = lag_us,
                                         .us_per_line = REPLAY_US_PER_LINE,
                                         .n_pool_bytes = daemon_device_bytes()};
        struct trace trace;
        char path[256];

        ck_assert_ptr_nonnull(folder);
        (void)snprintf(path, sizeof(path), "%s/%s.trace.gz", folder, name);
        ck_assert_int_eq(trace_read(path, &trace), 0);
        (void)run(&trace, n_lines, &options);
        trace_deinit(&trace);
}

TEST(a_programs_calls)
{
        run_head("diffusion", 12000, 1, 0);
}

/* With more blocks the library leases larger ones, from a number on that depends on the files that gpumemd may open. The
 * replay knows no such number. */
TEST(a_programs_calls_in_streams)
{
        run_head("kv_decode", 7000, STREAMS_MAX, 1000);
}

static int alloc_next(void *stream, uint64_t n_bytes, void **ret_pointer)
{
        const struct trace_event event = {.kind = TRACE_ALLOC, .n_bytes = n_bytes};

        world.now_us++;
        return step(&event, GPUMEM_DEVICE, stream, ret_pointer);
}

static int free_next(void *stream, void *pointer)
{
        const struct trace_event event = {.kind = TRACE_FREE};

        world.now_us++;
        return step(&event, GPUMEM_DEVICE, stream, &pointer);
}

/* It frees as much as calls for a look every few lines. What it needs again is not given away: neither is
 * it leased again, nor looked for. */
TEST(a_loop_keeps_what_it_uses)
{
        struct gpumem_stats before, after;
        struct pairs pairs;

        begin_time(0);
        ck_assert_int_eq(pairs_fill(&pairs, alloc_next, streams[0]), 0);
        ck_assert_int_eq(pairs_steps(&pairs, 16384, alloc_next, free_next, streams[0]), 0);
        before = device_stats();
        ck_assert_int_eq(pairs_steps(&pairs, 16384, alloc_next, free_next, streams[0]), 0);
        after = device_stats();
        ck_assert_uint_lt(after.n_misses - before.n_misses, 16384 / 1000);
        ck_assert_int_eq(pairs_empty(&pairs, free_next, streams[0]), 0);
}

/* Much is freed in less time than lies between two looks, and nothing more is done: most is others'. */
TEST(the_end_of_much_is_looked_at)
{
        void *live[64];

        begin_time(0);
        for (unsigned i = 0; i < 64; i++)
                ck_assert_int_eq(alloc_next(streams[0], 16 * MIB, &live[i]), 0);
        world.now_us += 1000000;
        for (unsigned i = 0; i < 64; i++)
                ck_assert_int_eq(free_next(streams[0], live[i]), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_idle), (uint64_t)48 * 16 * MIB);
}

TESTS_MAIN("replay", .limit_s = 120, .start = start, .stop = stop)
