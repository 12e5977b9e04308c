/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one device that another one reaches: what is mapped before and after it may, in whichever
 * process, and where it may not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/holder.h"
#include "tests/live/peers_world.h"
#include "tests/suite.h"

/* Of 256 MiB: no more than is kept, and too much for two. */
#define MUCH (120 * MIB)

static struct daemon gpumemd;
static struct holder holder;

/* A process that sees other devices, or in another order, and waits for a token. */
struct other {
        pid_t pid;
        int fd;
};
static struct other permuted, confined;

/* What is the first device elsewhere is the second one here. */
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
        peers_close(2);
}

/* What the last call said of itself. */
static void check_refusal(const char *part)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_int_eq(refusal.code, GPUMEM_E_NO_POOL);
        ck_assert_msg(strstr(refusal.text, part), "\"%s\" is not in: %s", part, refusal.text);
}

/* It sees the second device only, as its first. */
static void try_confined(const struct gpumem_token *token)
{
        struct gpumem_request request;
        uint64_t n_bytes;
        void *pointer;

        peers_open(1);
        request = on(0, N_BYTES);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpus[0], pointer, 1, N_BYTES), 0);
        must_free(0, pointer);
        request.place = 1;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_NO_POOL);
        check_refusal("CUDA device 1");
        ck_assert_int_eq(gpumem_attach(client, token, &pointer, &n_bytes), GPUMEM_E_NO_POOL);
        check_refusal("this process does not see");
        ck_assert_int_eq(gpumem_enable_peer(client, 1, 0), GPUMEM_E_NO_POOL);
        check_refusal("CUDA device 1: this process has no such device");
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_NO_POOL);
        peers_close(1);
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
        int status;

        if (!other->pid)
                return;
        if (token)
                ck_assert_int_eq(write(other->fd, token, sizeof(*token)), sizeof(*token));
        (void)close(other->fd);
        ck_assert_int_eq(waitpid(other->pid, &status, 0), other->pid);
        ck_assert_int_eq(status, 0);
        other->pid = 0;
}

static void start_on(const char *emulator)
{
        static const char *const options[] = {"--device-bytes", "256MiB", NULL};

        daemon_start(&gpumemd, emulator, options);
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
        peers_close(machine_n_devices());
        holder_end(&holder);
        end_other(&permuted, NULL);
        end_other(&confined, NULL);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

static const struct test_case apart = {"apart", .limit_s = 60, .start = start_apart, .stop = stop};

TEST(what_is_mapped_before_and_after_is_reached, NEEDS_TWO_DEVICES)
{
        void *before = must_alloc(0, N_BYTES, 0),
             *shared = must_alloc(0, N_BYTES, GPUMEM_SHAREABLE);
        void *other = must_alloc(1, N_BYTES, 0), *after;

        ck_assert(!is_reached(before, 1) && !is_reached(shared, 1));
        ck_assert_int_eq(gpu_use_none(gpus[0]), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        after = must_alloc(0, 100 * MIB, 0);
        check_both(before);
        check_both(shared);
        check_both(after);
        ck_assert(is_reached(before, 0) && is_reached(after, 0));
        ck_assert(!is_reached(other, 0));
        must_free(0, before);
        must_free(0, shared);
        must_free(0, after);
        must_free(1, other);
}

TEST(another_process_does_the_same, NEEDS_TWO_DEVICES)
{
        void *memory = must_alloc(0, N_BYTES, GPUMEM_SHAREABLE), *attached;
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
        must_free(0, memory);
}

TEST(who_does_not_see_a_device_is_told, NEEDS_TWO_DEVICES)
{
        void *memory = must_alloc(0, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token;

        ck_assert_int_eq(gpumem_share(client, memory, NULL, &token), 0);
        end_other(&confined, &token);
        must_free(0, memory);
}

/* Freed, and idle by and by. */
static void have_idle(void)
{
        void *pointer = must_alloc(0, MUCH, 0);

        must_free(0, pointer);
        ck_assert_int_eq(gpu_synchronize(gpus[0]), 0);
        daemon_await(FIGURE_idle, MUCH);
}

/* It was another process's meanwhile. As often as it takes: on a busy machine a process may be slower than
 * its blocks are kept. */
#define TRIES 50

TEST(what_comes_back_known_is_reached, NEEDS_TWO_DEVICES)
{
        uint64_t n_known = 0;
        void *pointer = NULL;

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        for (unsigned i = 0; i < TRIES && !n_known; i++) {
                if (pointer)
                        must_free(0, pointer);
                have_idle();
                ck_assert_int_eq(holder_alloc(&holder, MUCH, 0), 0);
                holder_free_all(&holder);
                daemon_await(FIGURE_idle, MUCH);
                pointer = must_alloc(0, MUCH, 0);
                n_known = daemon_figure(FIGURE_known_grants);
        }
        ck_assert_uint_gt(n_known, 0);
        check_both(pointer);
        must_free(0, pointer);
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
        void *memory = must_alloc(0, N_BYTES, 0);

        ck_assert_int_eq(gpu_use(gpus[1]), 0);
        ck_assert_int_eq(gpumem_enable_peer(client, 0, GPUMEM_NEAREST), 0);
        check_both(memory);
        must_free(0, memory);
}

static bool are_two_emulated(void)
{
        return machine_has_two_devices() && machine_is_emulated();
}

#define NEEDS_TWO_EMULATED_DEVICES \
        .can_run = are_two_emulated, .needs = "the emulated driver, and a second device"

/* What is mapped later is as before, and it can be had when the driver is well again. */
TEST(a_driver_that_fails_is_told, NEEDS_TWO_EMULATED_DEVICES)
{
        void *memory = must_alloc(0, N_BYTES, GPUMEM_SHAREABLE), *later;

        daemon_fault(&gpumemd, getpid(), "fail=cuMemSetAccess:*:999\n");
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), -EIO);
        daemon_fault(&gpumemd, getpid(), "");
        later = must_alloc(0, N_BYTES, GPUMEM_SHAREABLE);
        ck_assert(!is_reached(later, 1));
        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), 0);
        check_both(memory);
        check_both(later);
        must_free(0, memory);
        must_free(0, later);
}

TEST(devices_that_are_no_peers_are_told, .in = &apart, NEEDS_TWO_EMULATED_DEVICES)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        void *memory = must_alloc(0, N_BYTES, 0);

        ck_assert_int_eq(gpumem_enable_peer(client, 0, 1), GPUMEM_E_UNSUPPORTED);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        ck_assert_int_eq(refusal.code, GPUMEM_E_UNSUPPORTED);
        ck_assert_msg(strstr(refusal.text, "device 1 cannot reach memory of device 0"), "%s",
                      refusal.text);
        ck_assert_msg(strstr(refusal.text, "cuDeviceCanAccessPeer"), "%s", refusal.text);
        ck_assert(!is_reached(memory, 1));
        write_by(0, memory, 3);
        read_by(0, memory, 3);
        must_free(0, memory);
}

TESTS_MAIN("reach", .limit_s = 60, .start = start, .stop = stop)
