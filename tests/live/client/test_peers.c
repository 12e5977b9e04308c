/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one device that another device reaches and works on: mappings from before and after the call,
 * in every process, and devices that cannot. Whose work a free waits for, and which threads allocate
 * meanwhile. Device 0 is the owner unless stated otherwise. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "driver/cuda.h"
#include "gpumem-adapters.h"
#include "tests/live/support/gate.h"
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/program.h"

/* What is written and read. */
#define N_BYTES (4 * MIB)

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

static struct cuda cuda;

static __typeof__(cuMemGetAccess) *get_access; /* not used by the library */

static void load_more(void)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        ck_assert_ptr_nonnull(library);
        get_access = (__typeof__(get_access))dlsym(library, NAME_OF(cuMemGetAccess));
        ck_assert_ptr_nonnull(get_access);
}

/* That many devices of the process, and a client. */
static void peers_open(unsigned n)
{
        open_gpus(n);
        load_driver(&cuda);
        load_more();
        client = connect_client();
}

static void peers_close(void)
{
        gpumem_disconnect(client);
        close_gpus();
}

/* N_BYTES by that device's stream, which is waited for. */
static void write_by(unsigned device, void *pointer, unsigned char byte)
{
        fill(device, pointer, byte, N_BYTES);
}

static void read_by(unsigned device, const void *pointer, unsigned char byte)
{
        check_filled(device, pointer, byte, N_BYTES);
}

/* Each of the two devices reads what the other one wrote. */
static void check_both(void *pointer)
{
        write_by(1, pointer, 0x51);
        read_by(0, pointer, 0x51);
        write_by(0, pointer, 0x52);
        read_by(1, pointer, 0x52);
}

/* The driver reports that the device has access. */
static bool is_reached(const void *pointer, int device)
{
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        unsigned long long flags = 0;

        ck_assert_int_eq(get_access(&flags, &location, (CUdeviceptr)(uintptr_t)pointer),
                         CUDA_SUCCESS);
        return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Of 256 MiB: at most what is kept, and too much for two. */
#define MUCH (120 * MIB)

static struct holder holder;

/* A process that sees other devices, or in another order, and waits for a token. */
struct other {
        pid_t pid;
        int fd;
};
static struct other permuted, confined;

/* The first device of the other process is the second one here. */
static void write_permuted(const struct gpumem_token *token)
{
        uint64_t n_bytes;
        void *pointer;

        peers_open(2);
        ck_assert_int_eq(gpumem_enable_peer(client, 1, 0), 0);
        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        ck_assert_int_eq(gpumem_attach(client, token, &pointer, &n_bytes), 0);
        ck_assert_uint_eq(n_bytes, N_BYTES);
        write_by(0, pointer, 0x77);
        ck_assert_int_eq(gpumem_detach(client, pointer, gpu_stream(gpus[0])), 0);
        peers_close();
}

/* It sees only the second device, as its first. */
static void try_confined(const struct gpumem_token *token)
{
        struct gpumem_request request;
        uint64_t n_bytes;
        void *pointer;

        peers_open(1);
        request = on_device(0, N_BYTES);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpus[0], pointer, 1, N_BYTES), 0);
        free_on(0, pointer);
        request.place = 1;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_NO_POOL);
        last_refusal_says(client, GPUMEM_E_NO_POOL, "CUDA device 1");
        ck_assert_int_eq(gpumem_attach(client, token, &pointer, &n_bytes), GPUMEM_E_NO_POOL);
        last_refusal_says(client, GPUMEM_E_NO_POOL, "this process does not see");
        ck_assert_int_eq(gpumem_enable_peer(client, 1, 0), GPUMEM_E_NO_POOL);
        last_refusal_says(client, GPUMEM_E_NO_POOL,
                          "CUDA device 1: this process has no such device");
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_NO_POOL);
        peers_close();
}

static void start_other(struct other *other, const char *visible,
                        void (*serve)(const struct gpumem_token *token))
{
        struct gpumem_token token;
        int fds[2];

        ck_assert_int_eq(pipe(fds), 0);
        other->fd = fds[1];
        other->pid = fork();
        ck_assert_int_ge(other->pid, 0);
        if (other->pid) {
                (void)close(fds[0]);
                return;
        }
        (void)close(fds[1]);
        if (other == &confined)
                (void)close(permuted.fd);
        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", visible, 1), 0);
        if (read(fds[0], &token, sizeof(token)) == sizeof(token))
                serve(&token);
        _exit(EXIT_SUCCESS);
}

/* token NULL: it has nothing to do. */
static void end_other(struct other *other, const struct gpumem_token *token)
{
        if (!other->pid)
                return;
        if (token)
                ck_assert_int_eq(write(other->fd, token, sizeof(*token)), sizeof(*token));
        (void)close(other->fd);
        child_await(other->pid, 0);
        other->pid = 0;
}

static void start_on(const char *emulator)
{
        daemon_start(&gpumemd, emulator, OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&holder);
        start_other(&permuted, "1,0", write_permuted);
        start_other(&confined, "1", try_confined);
        peers_open(machine_n_devices());
}

static void start(void)
{
        start_on("devices=2,bytes=288MiB");
}

static void start_apart(void)
{
        start_on("devices=2,bytes=288MiB,peers=1");
}

static void stop(void)
{
        peers_close();
        holder_end(&holder);
        end_other(&permuted, NULL);
        end_other(&confined, NULL);
        gpumemd_stop_uncharged();
}

static const struct test_case apart = {"apart", .limit_s = 60, .start = start_apart, .stop = stop};

TEST(what_is_mapped_before_and_after_is_reached, NEEDS_TWO_DEVICES)
{
        void *before = alloc_on(0, N_BYTES, 0), *shared = alloc_on(0, N_BYTES, GPUMEM_SHAREABLE);
        void *other = alloc_on(1, N_BYTES, 0), *after;

        ck_assert(!is_reached(before, 1) && !is_reached(shared, 1));
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        after = alloc_on(0, 100 * MIB, 0);
        check_both(before);
        check_both(shared);
        check_both(after);
        ck_assert(is_reached(before, 0) && is_reached(after, 0));
        ck_assert(!is_reached(other, 0));
        free_on(0, before);
        free_on(0, shared);
        free_on(0, after);
        free_on(1, other);
}

TEST(another_process_does_the_same, NEEDS_TWO_DEVICES)
{
        void *memory = alloc_on(0, N_BYTES, GPUMEM_SHAREABLE), *attached;
        struct gpumem_token token;
        uint64_t n_bytes;

        ck_assert_int_eq(gpumem_share(client, memory, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        end_other(&permuted, &token);
        read_by(0, memory, 0x77);
        ck_assert(!is_reached(attached, 1));
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        read_by(1, memory, 0x77);
        read_by(1, attached, 0x77);
        ck_assert_int_eq(gpumem_detach(client, attached, gpu_stream(gpus[1])), 0);
        free_on(0, memory);
}

TEST(who_does_not_see_a_device_is_told, NEEDS_TWO_DEVICES)
{
        void *memory = alloc_on(0, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token;

        ck_assert_int_eq(gpumem_share(client, memory, NULL, &token), 0);
        end_other(&confined, &token);
        free_on(0, memory);
}

/* Freed, and idle some time later. */
static void have_idle(void)
{
        void *pointer = alloc_on(0, MUCH, 0);

        free_on(0, pointer);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        daemon_await(FIGURE_idle, MUCH);
}

/* It was another process's meanwhile. Repeated if needed: on a busy machine a process may be slower than
 * its blocks are kept. */
#define TRIES 50

TEST(what_comes_back_known_is_reached, NEEDS_TWO_DEVICES)
{
        uint64_t n_known = 0;
        void *pointer = NULL;

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        for (unsigned i = 0; i < TRIES && !n_known; i++) {
                if (pointer)
                        free_on(0, pointer);
                have_idle();
                ck_assert_int_eq(holder_alloc(&holder, MUCH, 0), 0);
                holder_free_all(&holder);
                daemon_await(FIGURE_idle, MUCH);
                pointer = alloc_on(0, MUCH, 0);
                n_known = daemon_figure(FIGURE_known_grants);
        }
        ck_assert_uint_gt(n_known, 0);
        check_both(pointer);
        free_on(0, pointer);
}

TEST(devices_that_are_none_are_told)
{
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 1000, 0), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1000), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, -2), GPUMEM_E_NO_POOL);
        ck_assert_int_eq(gpumem_enable_peer(client, GPUMEM_NEAREST, 0), GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 0), 0);
}

TEST(the_nearest_device_is_the_contexts, NEEDS_TWO_DEVICES)
{
        void *memory = alloc_on(0, N_BYTES, 0);

        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, GPUMEM_NEAREST), 0);
        check_both(memory);
        free_on(0, memory);
}

static bool are_two_emulated(void)
{
        return machine_has_two_devices() && machine_is_emulated();
}

#define NEEDS_TWO_EMULATED_DEVICES \
        .can_run = are_two_emulated, .needs = "the emulated driver, and a second device"

/* Later mappings are as before, and the call succeeds when the driver works again. */
TEST(a_driver_that_fails_is_told, NEEDS_TWO_EMULATED_DEVICES)
{
        void *memory = alloc_on(0, N_BYTES, GPUMEM_SHAREABLE), *later;

        daemon_fault(&gpumemd, getpid(), "fail=cuMemSetAccess:*:999\n");
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), -EIO);
        daemon_fault(&gpumemd, getpid(), "");
        later = alloc_on(0, N_BYTES, GPUMEM_SHAREABLE);
        ck_assert(!is_reached(later, 1));
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        check_both(memory);
        check_both(later);
        free_on(0, memory);
        free_on(0, later);
}

TEST(devices_that_are_no_peers_are_told, .in = &apart, NEEDS_TWO_EMULATED_DEVICES)
{
        void *memory = alloc_on(0, N_BYTES, 0);

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_UNSUPPORTED);
        last_refusal_says(client, GPUMEM_E_UNSUPPORTED, "device 1 cannot reach memory of device 0");
        last_refusal_says(client, GPUMEM_E_UNSUPPORTED, "cuDeviceCanAccessPeer");
        ck_assert(!is_reached(memory, 1));
        write_by(0, memory, 3);
        read_by(0, memory, 3);
        free_on(0, memory);
}

/* By the other device, when the gate opens. */
static void write_late(struct gate *gate, void *pointer)
{
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_init(gate, &cuda);
        gate_hold(gate, gpu_stream(gpus[1]));
        ck_assert_int_eq(gpu_fill(gpus[1], pointer, 0xbb, N_BYTES), 0);
}

/* The other device writes to it late; until then no other allocation may get it. */
TEST(it_is_nobody_elses_before_the_other_device_is_done, NEEDS_TWO_DEVICES)
{
        void *used = alloc_on(0, N_BYTES, 0), *next[8];
        struct gate gate;

        write_late(&gate, used);
        ck_assert_int_eq(gpumem_record_use(client, used, gpu_stream(gpus[1])), 0);
        free_on(0, used);
        for (unsigned i = 0; i < ARRAY_SIZE(next); i++) {
                next[i] = alloc_on(0, N_BYTES, 0);
                ck_assert_ptr_ne(next[i], used);
                write_by(0, next[i], 0xaa);
        }
        gate_open(&gate);
        ck_assert_int_eq(gpu_synchronize(gpus[1]), 0);
        for (unsigned i = 0; i < ARRAY_SIZE(next); i++) {
                read_by(0, next[i], 0xaa);
                free_on(0, next[i]);
        }
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_deinit(&gate);
}

static void *open_later(void *argument)
{
        sleep_ms(50);
        gate_open(argument);
        return NULL;
}

TEST(a_free_in_the_other_devices_stream_waits_for_it, NEEDS_TWO_DEVICES)
{
        void *used = alloc_on(0, N_BYTES, 0);
        pthread_t thread;
        struct gate gate;

        write_late(&gate, used);
        ck_assert_int_eq(pthread_create(&thread, NULL, open_later, &gate), 0);
        free_on(1, used);
        ck_assert_int_eq(cuda.cuStreamQuery(gpu_stream(gpus[1])), CUDA_SUCCESS);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_ptr_eq(alloc_on(0, N_BYTES, 0), used);
        free_on(0, used);
        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        gate_deinit(&gate);
}

#define N_THREADS 4
#define N_HELD    6

struct worker {
        pthread_t thread;
        void *held[N_HELD];
        atomic_bool *over;
};

/* Blocks come and go all the time; at the end some stay. */
static void *allocate(void *argument)
{
        struct worker *worker = argument;
        struct gpumem_request request = {
                .struct_size = sizeof(request), .kind = GPUMEM_DEVICE, .flags = GPUMEM_SHAREABLE};
        bool over;

        if (gpu_use(gpus[0]))
                return worker;
        do {
                over = atomic_load(worker->over);
                for (unsigned i = 0; i < N_HELD; i++) {
                        if (worker->held[i] && gpumem_free_sync(client, worker->held[i]))
                                return worker;
                        request.n_bytes = (2 + i % 3) * N_BYTES / 2;
                        if (gpumem_alloc(client, &request, &worker->held[i]))
                                return worker;
                }
        } while (!over);
        return NULL;
}

TEST(no_block_is_missed_while_others_allocate, NEEDS_TWO_DEVICES)
{
        struct worker workers[N_THREADS];
        atomic_bool over = false;

        for (unsigned i = 0; i < N_THREADS; i++) {
                workers[i] = (struct worker){.over = &over};
                ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, allocate, &workers[i]),
                                 0);
        }
        sleep_ms(30);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        atomic_store(&over, true);
        for (unsigned i = 0; i < N_THREADS; i++) {
                void *failed;

                ck_assert_int_eq(pthread_join(workers[i].thread, &failed), 0);
                ck_assert_ptr_null(failed);
                for (unsigned j = 0; j < N_HELD; j++) {
                        ck_assert(is_reached(workers[i].held[j], 1));
                        ck_assert_int_eq(gpumem_free_sync(client, workers[i].held[j]), 0);
                }
        }
}

TEST(a_device_reaches_its_own)
{
        void *memory = alloc_on(0, N_BYTES, 0);

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 0), 0);
        write_by(0, memory, 5);
        read_by(0, memory, 5);
        free_on(0, memory);
}

/* A framework copies from one device to the other without a word to its allocator. */
TEST(devices_that_a_framework_allocates_for_reach_each_other, NEEDS_TWO_DEVICES)
{
        void *memory[2];

        for (int i = 0; i < 2; i++) {
                ck_assert_int_eq(gpu_use(gpus[i]), 0);
                memory[i] = gpumem_torch_alloc(N_BYTES, i, NULL);
        }
        check_both(memory[0]);
        check_both(memory[1]);
        ck_assert_uint_eq(gpumem_adapters_failures(), 0);
        for (int i = 0; i < 2; i++) {
                ck_assert_int_eq(gpu_use(gpus[i]), 0);
                gpumem_torch_free(memory[i], N_BYTES, i, NULL);
        }
        ck_assert_int_eq(gpumem_flush(NULL, NULL), 0);
}

TESTS_MAIN("reach", .limit_s = 60, .start = start, .stop = stop)
