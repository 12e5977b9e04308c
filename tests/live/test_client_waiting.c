/* SPDX-License-Identifier: Apache-2.0 */
/* Full pools and full devices: who is refused, who waits, and who need not wait behind. */
#include <pthread.h>
#include <stdio.h>

#include "base/fdset.h"
#include "base/size.h"
#include "driver/vmm.h"
#include "tests/demo/gpu.h"
#include "tests/live/program.h"
#include "tests/suite.h"

/* The pool is full: refused at once, refused after a while, and served when somebody gives back. */
TEST(a_full_pool_refuses_in_time)
{
        struct gpumem_request request = on_device(0, 256 * MIB), more = on_device(0, 4096);
        unsigned char *all = must_alloc(&request);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &more, &pointer), GPUMEM_E_REFUSED);
        more.wait_ms = 30;
        ck_assert_int_eq(gpumem_alloc(client, &more, &pointer), GPUMEM_E_TIMED_OUT);
        must_free(&request, all);
        more.wait_ms = 20000;
        must_free(&more, must_alloc(&more));
}

struct releaser {
        struct cuda *cuda;
        uint64_t handle;
        int fd;
};

/* Once the request waits, having been tried and refused by the driver. */
static void *release_later(void *argument)
{
        struct releaser *releaser = argument;

        daemon_await(FIGURE_waiting, 1);
        sleep_ms(50);
        closep(&releaser->fd);
        ck_assert_int_eq(vmm_release(releaser->cuda, releaser->handle), 0);
        return NULL;
}

/* The pool has room, but somebody outside of it holds the device's memory, and lets go of it without
 * a word to the daemon. */
TEST(a_full_device_is_tried_again, NEEDS_EMULATOR)
{
        struct gpumem_request request = on_device(0, 128 * MIB);
        char reason[CUDA_REASON_MAX];
        struct cuda cuda;
        uint64_t handle;
        void *pointer;
        int fd;

        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        ck_assert_int_eq(vmm_create(&cuda, 0, 200 * MIB, &handle, &fd), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DEVICE_FULL);
        {
                struct releaser releaser = {&cuda, handle, fd};
                pthread_t thread;

                ck_assert_int_eq(pthread_create(&thread, NULL, release_later, &releaser), 0);
                request.wait_ms = 20000;
                must_free(&request, must_alloc(&request));
                ck_assert_int_eq(pthread_join(thread, NULL), 0);
        }
}

struct giver {
        struct gpumem_request request;
        unsigned char *all;
};

static void *give_later(void *argument)
{
        struct giver *giver = argument;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        daemon_await(FIGURE_waiting, 1);
        must_free(&giver->request, giver->all);
        return NULL;
}

/* One thread waits for memory while another gives it back over the same connection. */
TEST(a_waiting_thread_holds_no_other_up)
{
        struct giver giver = {.request = on_device(0, 256 * MIB)};
        struct gpumem_request more = on_device(0, 4096);
        pthread_t thread;

        giver.all = must_alloc(&giver.request);
        ck_assert_int_eq(pthread_create(&thread, NULL, give_later, &giver), 0);
        more.wait_ms = 20000;
        must_free(&more, must_alloc(&more));
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TESTS_MAIN("client_waiting", .limit_s = 60, .start = program_start, .stop = program_stop)
