/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes of two threads each want more blocks of CUDA IPC handles than there are: blocks are
 * taken, and come back while they are open. No call fails, and nobody finds another's bytes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/legacy_world.h"
#include "tests/random.h"
#include "tests/suite.h"

#define N_PROCESSES 3
#define N_THREADS   2

/* Unless GPUMEM_TEST_STEPS says otherwise. */
#if defined(__SANITIZE_THREAD__)
#define N_STEPS 100
#else
#define N_STEPS 400
#endif

/* Two of the largest are all that there is room for. */
#define UNIT    (20 * MIB)
#define N_SIZES 5
#define LONG_MS 60000

#define IDLE_PART 4
#define IDLE_MS   3

static struct daemon gpumemd;

struct actor {
        pthread_t thread;
        struct gpumem_client *client;
        struct test_random random;
        uint64_t n_steps;
        unsigned char byte;
        const char *failure;
};

static bool has_bytes(struct gpu *gpu, const unsigned char *pointer, uint64_t n_bytes,
                      unsigned char byte)
{
        unsigned char *first, *last;

        return gpu_restart(gpu) == 0 && gpu_stage(gpu, 1, (void **)&first) == 0 &&
               gpu_stage(gpu, 1, (void **)&last) == 0 &&
               gpu_copy_to_host(gpu, first, pointer, 1) == 0 &&
               gpu_copy_to_host(gpu, last, pointer + n_bytes - 1, 1) == 0 &&
               gpu_synchronize(gpu) == 0 && *first == byte && *last == byte;
}

static const char *take_step(struct actor *actor, struct gpu *gpu)
{
        struct gpumem_request request = {
                .struct_size = sizeof(request),
                .kind = GPUMEM_DEVICE,
                .place = 0,
                .stream = gpu_stream(gpu),
                .n_bytes = UNIT * (1 + test_random_next(&actor->random) % N_SIZES),
                .wait_ms = LONG_MS};
        void *pointer;
        int r = gpumem_alloc(actor->client, &request, &pointer);

        if (r)
                return gpumem_strerror(r);
        if (gpu_fill(gpu, pointer, actor->byte, 1) ||
            gpu_fill(gpu, (unsigned char *)pointer + request.n_bytes - 1, actor->byte, 1))
                return "no byte could be written";
        if (!has_bytes(gpu, pointer, request.n_bytes, actor->byte))
                return "its bytes were not its own";
        r = gpumem_free(actor->client, pointer, gpu_stream(gpu));
        /* Now and then what it does not use is seen to be idle, and is another's. */
        sleep_ms(test_random_next(&actor->random) % IDLE_PART ? 0 : IDLE_MS);
        return r ? gpumem_strerror(r) : NULL;
}

static void *act(void *argument)
{
        struct actor *actor = argument;
        struct gpu *gpu;

        if (gpu_new(0, &gpu) || gpu_use(gpu)) {
                actor->failure = "no device";
                return NULL;
        }
        for (uint64_t i = 0; i < actor->n_steps && !actor->failure; i++)
                actor->failure = take_step(actor, gpu);
        gpu_free(gpu);
        return NULL;
}

static int run_process(unsigned index, uint64_t seed, uint64_t n_steps)
{
        struct actor actors[N_THREADS];
        struct gpumem_client *client;
        int status = EXIT_SUCCESS;

        if (gpumem_connect(NULL, &client))
                return EXIT_FAILURE;
        for (unsigned i = 0; i < N_THREADS; i++) {
                unsigned number = index * N_THREADS + i + 1;

                actors[i] = (struct actor){.client = client,
                                           .random = {.state = seed + number},
                                           .n_steps = n_steps,
                                           .byte = (unsigned char)number};
                if (pthread_create(&actors[i].thread, NULL, act, &actors[i]))
                        return EXIT_FAILURE;
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
                (void)pthread_join(actors[i].thread, NULL);
                if (!actors[i].failure)
                        continue;
                (void)fprintf(stderr, "process %u: %s\n", index, actors[i].failure);
                status = EXIT_FAILURE;
        }
        gpumem_disconnect(client);
        return status;
}

TEST(nobody_is_refused_or_finds_anothers_bytes)
{
        struct test_random random = test_random_begin();
        uint64_t n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);
        pid_t pids[N_PROCESSES];

        legacy_start(&gpumemd, "devices=1,bytes=512MiB", geteuid());
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                pids[i] = fork();
                ck_assert_int_ge(pids[i], 0);
                if (pids[i] == 0)
                        _exit(run_process(i, random.state, n_steps));
        }
        for (unsigned i = 0; i < N_PROCESSES; i++) {
                int status;

                ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
                ck_assert_int_eq(status, 0);
        }
        daemon_stop_empty(&gpumemd);
}

TESTS_MAIN("storm", .limit_s = 280)
