/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of streams, waits, frees and captures. Freed memory is filled, and unmapped as soon as the library
 * takes it for idle. A program reads memory in other streams than its own, and its own stream waits for that only
 * after the free. It must read what it wrote, and no capture may be lost.
 *
 * GPUMEM_TEST_STEPS programs; each has the seed that is printed and its number. */
#include "client/api/client.h"
#include "client/pool/empty_blocks.h"
#include "driver/cuda.h"
#include "tests/live/support/capturer.h"
#include "tests/live/support/world.h"
#include "tests/random.h"

#define N_PROGRAMS 600
#define N_STREAMS  4 /* the last one captures now and then */
#define N_LIVE     6
#define N_READS    64
#define N_OPS_MAX  24
#define N_EDGE     256

/* What is filled to delay a stream. A GPU fills 2 MiB in a microsecond, and the rule of one stream seldom fails then. */
#define N_DELAY_EMULATED (2 * MIB)
#define N_DELAY_GPU      (64 * MIB)

/* More than enough programs for the rule of one stream to fail. */
#define N_PROGRAMS_OWN 3000

struct live {
        unsigned char *pointer; /* NULL: none */
        uint64_t n_bytes;
        unsigned owner;
        unsigned char byte;
};

/* What a stream has read, or will have. */
struct seen {
        unsigned char bytes[2 * N_EDGE];
        unsigned char expected;
};

static struct {
        struct cuda cuda;
        struct capturer capturer;
        struct gpumem_client *client;
        CUcontext context;
        CUstream streams[N_STREAMS];
        CUevent event;
        CUdeviceptr scratch;
        uint64_t n_delay;
        struct test_random random;
        struct live live[N_LIVE];
        struct seen *seen;
        unsigned n_seen;
        bool captures;
        unsigned n_faults;
} world;

static uint64_t below(uint64_t n)
{
        return test_random_below(&world.random, n);
}

/* A call of the driver or of the library that fails is a fault. */
static void must(int result)
{
        world.n_faults += result != 0;
}

#define MUST_CALL(call, ...) must((int)world.cuda.call(__VA_ARGS__))

static CUdeviceptr at(const unsigned char *pointer)
{
        return (CUdeviceptr)(uintptr_t)pointer;
}

static void order(CUstream later, CUstream earlier)
{
        MUST_CALL(cuEventRecord, world.event, earlier);
        MUST_CALL(cuStreamWaitEvent, later, world.event, 0);
}

/* A stream that does not capture now. */
static unsigned any_stream(void)
{
        return (unsigned)below(world.captures ? N_STREAMS - 1 : N_STREAMS);
}

static void write_edges(const struct live *live)
{
        CUstream stream = world.streams[live->owner];

        MUST_CALL(cuMemsetD8Async, at(live->pointer), live->byte, N_EDGE, stream);
        MUST_CALL(cuMemsetD8Async, at(live->pointer + live->n_bytes - N_EDGE), live->byte, N_EDGE,
                  stream);
}

static void alloc(struct live *live)
{
        unsigned owner = any_stream();
        struct gpumem_request request = request_in(
                world.streams[owner], GPUMEM_DEVICE,
                2 * N_EDGE + test_random_size(&world.random, 4 * MIB));
        void *pointer;
        int r = gpumem_alloc(world.client, &request, &pointer);

        must(r);
        if (r)
                return;
        *live = (struct live){pointer, request.n_bytes, owner, (unsigned char)below(256)};
        write_edges(live);
}

/* Late, often. */
static void read_in(const struct live *live, CUstream stream)
{
        struct seen *seen = &world.seen[world.n_seen];

        if (world.n_seen == N_READS)
                return;
        world.n_seen++;
        seen->expected = live->byte;
        if (below(3))
                MUST_CALL(cuMemsetD8Async, world.scratch, 0, world.n_delay, stream);
        MUST_CALL(cuMemcpyDtoHAsync, seen->bytes, at(live->pointer), N_EDGE, stream);
        MUST_CALL(cuMemcpyDtoHAsync, seen->bytes + N_EDGE,
                  at(live->pointer + live->n_bytes - N_EDGE), N_EDGE, stream);
}

/* A stream that the owner is ordered before. */
static unsigned reader_of(const struct live *live)
{
        unsigned reader = any_stream();

        if (reader != live->owner)
                order(world.streams[reader], world.streams[live->owner]);
        return reader;
}

/* The owner has the memory after it. */
static void only_read(const struct live *live)
{
        unsigned reader = reader_of(live);

        read_in(live, world.streams[reader]);
        order(world.streams[live->owner], world.streams[reader]);
}

static void free_live(struct live *live, unsigned stream)
{
        must(gpumem_free(world.client, live->pointer, world.streams[stream]));
        live->pointer = NULL;
}

/* The owner waits for the reader before the free, or after it, as programs may where both are registered; or the
 * reader is recorded, or frees. */
static void read_and_free(struct live *live)
{
        unsigned owner = live->owner, reader = reader_of(live);

        read_in(live, world.streams[reader]);
        switch (below(5)) {
        case 0:
                order(world.streams[owner], world.streams[reader]);
                free_live(live, owner);
                break;
        case 1:
                must(gpumem_record_use(world.client, live->pointer, world.streams[reader]));
                free_live(live, owner);
                break;
        case 2:
                free_live(live, reader);
                break;
        default:
                free_live(live, owner);
                order(world.streams[owner], world.streams[reader]);
        }
}

/* As a service thread with nothing else to do, and a daemon that wants everything back. */
static void unmap_what_is_idle(void)
{
        struct pool *pool;

        client_end_deferred(world.client, false);
        for (uint32_t i = 0; (pool = client_pool(world.client, i)); i++) {
                struct leased_list list = LIST_HEAD_INITIALIZER(list);

                pthread_mutex_lock(&pool->lock);
                empty_blocks_poll(pool);
                if (pool->heap_set.arena)
                        empty_blocks_take_all(pool, &list);
                pthread_mutex_unlock(&pool->lock);
                leased_free_all(pool, &list);
        }
}

static void begin_or_end_capture(void)
{
        CUstream stream = world.streams[N_STREAMS - 1];
        CUgraph graph = NULL;

        if (!world.captures) {
                must((int)world.capturer.begin(stream, (CUstreamCaptureMode)below(3)));
                MUST_CALL(cuMemsetD8Async, world.scratch, 1, 64, stream);
        } else {
                must((int)world.capturer.end(stream, &graph));
                if (graph)
                        must((int)world.capturer.destroy(graph));
        }
        world.captures = !world.captures;
}

/* Memory of the stream that captures is left alone meanwhile. */
static bool is_out_of_reach(const struct live *live)
{
        return world.captures && live->owner == N_STREAMS - 1;
}

/* The driver may refuse calls that it takes for unsafe to a thread of another mode. */
static void relax(CUstreamCaptureMode *mode)
{
        MUST_CALL(cuThreadExchangeStreamCaptureMode, mode);
}

static void operate(void)
{
        struct live *live = &world.live[below(N_LIVE)];
        uint64_t what = below(20);

        if (what == 0) {
                begin_or_end_capture();
        } else if (what < 6) {
                CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

                relax(&mode);
                unmap_what_is_idle();
                relax(&mode);
        } else if (!live->pointer) {
                alloc(live);
        } else if (!is_out_of_reach(live)) {
                if (what < 10)
                        only_read(live);
                else
                        read_and_free(live);
        }
}

static void check_reads(void)
{
        for (unsigned i = 0; i < world.n_seen; i++) {
                const struct seen *seen = &world.seen[i];

                for (unsigned k = 0; k < sizeof(seen->bytes); k++) {
                        if (seen->bytes[k] != seen->expected) {
                                world.n_faults++;
                                break;
                        }
                }
        }
        world.n_seen = 0;
}

static void run_program(void)
{
        uint64_t n_ops = 1 + below(N_OPS_MAX);

        while (n_ops--)
                operate();
        if (world.captures)
                begin_or_end_capture();
        for (unsigned i = 0; i < N_STREAMS; i++)
                MUST_CALL(cuStreamSynchronize, world.streams[i]);
        check_reads();
        for (unsigned i = 0; i < N_LIVE; i++) {
                if (world.live[i].pointer)
                        free_live(&world.live[i], world.live[i].owner);
        }
}

static void begin_world(void)
{
        char reason[CUDA_REASON_MAX];

        must(cuda_load(NULL, &world.cuda, reason));
        MUST_CALL(cuDevicePrimaryCtxRetain, &world.context, 0);
        MUST_CALL(cuCtxSetCurrent, world.context);
        capturer_init(&world.capturer, &world.cuda);
        must(gpumem_connect(NULL, &world.client));
        for (unsigned i = 0; i < N_STREAMS; i++) {
                MUST_CALL(cuStreamCreate, &world.streams[i], CU_STREAM_NON_BLOCKING);
                must(gpumem_stream_register(world.client, world.streams[i]));
        }
        MUST_CALL(cuEventCreate, &world.event, CU_EVENT_DISABLE_TIMING);
        world.n_delay = machine_is_emulated() ? N_DELAY_EMULATED : N_DELAY_GPU;
        MUST_CALL(cuMemAlloc, &world.scratch, world.n_delay);
        /* Copies to other host memory are waited for. */
        must(posix_memalign((void **)&world.seen, 4096, N_READS * sizeof(*world.seen)));
        MUST_CALL(cuMemHostRegister, world.seen, N_READS * sizeof(*world.seen), 0);
}

/* In a process of its own: a program that reads what was unmapped spoils its context. */
static unsigned count_faults(const char *fence, const char *debug, uint64_t n_programs)
{
        uint64_t seed = test_random_begin().state;
        int status;
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                (void)setenv("GPUMEM_FENCE", fence, 1);
                (void)setenv("GPUMEM_DEBUG", debug, 1);
                (void)setenv("GPUMEM_SERVICE_THREAD", "0", 1);
                (void)unsetenv("GPUMEM_CACHE_SIZE");
                begin_world();
                for (uint64_t i = 0; i < n_programs && !world.n_faults; i++) {
                        world.random.state = seed + i;
                        run_program();
                        if (world.n_faults)
                                printf("# %s: program %" PRIu64 " of seed %" PRIu64 "\n", fence, i,
                                       seed);
                }
                (void)fflush(stdout);
                _exit(world.n_faults ? 1 : 0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFEXITED(status));
        return (unsigned)WEXITSTATUS(status);
}

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=2GiB", OPTIONS("--device-bytes", "1GiB"));
}

TEST(no_program_reads_what_is_not_its_own)
{
        uint64_t n_programs = test_number_from_environment("GPUMEM_TEST_STEPS", N_PROGRAMS);

        ck_assert_uint_eq(count_faults("streams", "fill", n_programs), 0);
}

/* The same programs find the fault where one stream's work alone is waited for. Nothing is filled then: memory that
 * left too early is what they find. */
TEST(the_rule_of_one_stream_fails)
{
        ck_assert_uint_eq(count_faults("own", "", N_PROGRAMS_OWN), 1);
}

TESTS_MAIN("orders", .limit_s = 100000, .start = start, .stop = gpumemd_stop_uncharged)
