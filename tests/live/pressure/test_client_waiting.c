/* SPDX-License-Identifier: Apache-2.0 */
/* Full pools and full devices: which requests are refused, which wait, and which need not wait behind
 * others. */
#include <pthread.h>

#include "base/fdset.h"
#include "driver/vmm.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/program.h"

/* The pool is full: refused at once, refused after a while, and served when a client gives back. */
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

/* Called once the request waits, after the driver has refused it. */
static void *release_later(void *argument)
{
        void (*release)(void) = *(void (**)(void))argument;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        daemon_await(FIGURE_waiting, 1);
        release();
        return NULL;
}

static void must_get_when(struct gpumem_request *request, void (*release)(void))
{
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, release_later, (void *)&release), 0);
        request->wait_ms = 20000;
        must_free(request, must_alloc(request));
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static struct cuda cuda;
static uint64_t handle;
static int handle_fd;

static void release_handle(void)
{
        sleep_ms(50);
        closep(&handle_fd);
        ck_assert_int_eq(vmm_release(&cuda, handle), 0);
}

/* The pool has room, but a process outside of it holds the device's memory, and frees it without a message
 * to the daemon. */
TEST(a_full_device_is_tried_again, NEEDS_EMULATOR)
{
        struct gpumem_request request = on_device(0, 128 * MIB);
        void *pointer;

        load_driver(&cuda);
        ck_assert_int_eq(vmm_create(&cuda, 0, 200 * MIB, &handle, &handle_fd), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DEVICE_FULL);
        must_get_when(&request, release_handle);
}

static struct gpumem_request large;
static unsigned char *all;

static void free_all(void)
{
        must_free(&large, all);
}

/* One thread waits for memory while another returns it over the same connection. */
TEST(a_waiting_thread_holds_no_other_up)
{
        struct gpumem_request more = on_device(0, 4096);

        large = on_device(0, 256 * MIB);
        all = must_alloc(&large);
        must_get_when(&more, free_all);
}

TESTS_MAIN("client_waiting", .limit_s = 60, .start = program_start, .stop = program_stop)
