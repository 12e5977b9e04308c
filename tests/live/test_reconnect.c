/* SPDX-License-Identifier: Apache-2.0 */
/* A client and the daemons that it outlives: while there is none, and how the next one is found. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/listed.h"
#include "tests/live/reconnect_world.h"
#include "tests/suite.h"

#define N_THREADS 4

TEST(a_hit_needs_no_daemon)
{
        unsigned char *small = must_alloc(on_device(0, 4096)), *other;

        daemon_kill(&gpumemd);
        other = must_alloc(on_device(0, 4096));
        ck_assert_uint_eq((uintptr_t)small / (2 * MIB), (uintptr_t)other / (2 * MIB));
        must_free(0, small);
        must_free(0, other);
        daemon_restart(&gpumemd, NULL, reconnect_options);
}

TEST(without_a_daemon_a_miss_says_so_each_time)
{
        unsigned char *held = must_alloc(on_device(0, 4096));
        void *pointer = &held;

        daemon_kill(&gpumemd);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_int_eq(try_alloc(on_device(0, 4 * MIB), &pointer), GPUMEM_E_DISCONNECTED);
                ck_assert_ptr_eq(pointer, &held);
        }
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL),
                         GPUMEM_E_DISCONNECTED);
        daemon_restart(&gpumemd, NULL, reconnect_options);
        pointer = must_alloc(on_device(0, 4 * MIB));
        daemon_await(FIGURE_declared, 2 * MIB);
        must_free(0, pointer);
        must_free(0, held);
}

/* Nothing of the present daemon is held: freeing all tells it so before any miss. */
TEST(a_daemon_that_ends_in_order_is_outlived_too)
{
        unsigned char *pointer = must_alloc(on_device(0, 4 * MIB));

        ck_assert_int_eq(kill(gpumemd.pid, SIGTERM), 0);
        while (access(gpumemd.socket, F_OK) == 0)
                sleep_ms(5);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, reconnect_options);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL), 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        must_free(0, pointer);
        daemon_await(FIGURE_declared, 0);
}

struct waiter {
        struct gpumem_request request;
        int result;
        void *pointer;
};

static void *wait_for_memory(void *argument)
{
        struct waiter *waiter = argument;

        ck_assert_int_eq(gpu_use(gpus[0]), 0);
        waiter->result = gpumem_alloc(client, &waiter->request, &waiter->pointer);
        return NULL;
}

/* What is full for the driver is full for the next daemon too, whatever it has reserved itself; a
 * larger device than that has room. */
TEST(a_waiting_request_waits_for_the_next_daemon)
{
        unsigned char *all = must_alloc(on_device(0, 256 * MIB));
        struct waiter waiter = {.request = on_device(0, 4 * MIB)};
        pthread_t thread;
        void *pointer;

        waiter.request.wait_ms = 60000;
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_memory, &waiter), 0);
        daemon_await(FIGURE_waiting, 1);
        daemon_kill(&gpumemd);
        /* One that does not wait is not held up by one that does. */
        ck_assert_int_eq(try_alloc(on_device(0, 4 * MIB), &pointer), GPUMEM_E_DISCONNECTED);
        daemon_restart(&gpumemd, NULL, reconnect_options);
        if (machine_is_emulated())
                daemon_await(FIGURE_waiting, 1);
        daemon_await(FIGURE_declared, 256 * MIB);
        must_free(0, all);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(waiter.result, 0);
        must_free(0, waiter.pointer);
}

TEST(a_daemon_that_does_not_come_is_waited_for_in_vain)
{
        struct waiter waiter = {.request = on_device(0, 4 * MIB)};
        uint64_t begin_ms, end_ms;

        daemon_kill(&gpumemd);
        waiter.request.wait_ms = 300;
        begin_ms = clock_now_ms();
        (void)wait_for_memory(&waiter);
        end_ms = clock_now_ms();
        ck_assert_int_eq(waiter.result, GPUMEM_E_DISCONNECTED);
        ck_assert_uint_ge(end_ms - begin_ms, 299);
        daemon_restart(&gpumemd, NULL, reconnect_options);
}

static void count_event(const struct gpumem_event *event, void *argument)
{
        atomic_uint *counts = argument;

        counts[event->kind] += 1 + event->n_suppressed;
}

static enum gpumem_event_kind told[8];
static unsigned n_told;

static void note_kind(const struct gpumem_event *event, void *argument)
{
        (void)argument;
        if (n_told < ARRAY_SIZE(told))
                told[n_told++] = event->kind;
}

TEST(events_are_told_in_the_order_of_things)
{
        void *pointer;

        n_told = 0;
        ck_assert_int_eq(gpumem_set_event_callback(client, note_kind, NULL), 0);
        daemon_kill(&gpumemd);
        ck_assert_int_eq(try_alloc(on_device(0, 4 * MIB), &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_uint_eq(n_told, 2);
        ck_assert_int_eq(told[0], GPUMEM_EVENT_DAEMON_LOST);
        ck_assert_int_eq(told[1], GPUMEM_EVENT_REFUSED);
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), 0);
        daemon_restart(&gpumemd, NULL, reconnect_options);
}

static unsigned count_own_rows(void)
{
        struct listed listed = listed_now(MESSAGE_CLIENTS);
        unsigned n = 0;

        for (uint32_t i = 0; i < listed.n_rows; i++)
                n += listed.clients[i].pid == (uint32_t)getpid() &&
                     strcmp(listed.clients[i].program, program_invocation_short_name) == 0;
        listed_free(&listed);
        return n;
}

TEST(of_many_threads_one_connects)
{
        atomic_uint counts[8] = {0};
        struct waiter waiters[N_THREADS];
        pthread_t threads[N_THREADS];

        ck_assert_int_eq(gpumem_set_event_callback(client, count_event, counts), 0);
        restart_daemon(NULL);
        for (unsigned i = 0; i < N_THREADS; i++) {
                waiters[i] = (struct waiter){.request = on_device(0, (i + 1) * 4 * MIB)};
                ck_assert_int_eq(pthread_create(&threads[i], NULL, wait_for_memory, &waiters[i]),
                                 0);
        }
        for (unsigned i = 0; i < N_THREADS; i++) {
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
                ck_assert_int_eq(waiters[i].result, 0);
        }
        ck_assert_uint_eq(count_own_rows(), 1);
        ck_assert_uint_eq(counts[GPUMEM_EVENT_DAEMON_LOST], 1);
        ck_assert_uint_eq(counts[GPUMEM_EVENT_DAEMON_BACK], 1);
        ck_assert_uint_eq(daemon_figure(FIGURE_declared), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_leases), N_THREADS);
        for (unsigned i = 0; i < N_THREADS; i++)
                must_free(0, waiters[i].pointer);
}

/* The connection ends, the daemon does not. */
static void cut_connection(void)
{
        for (int fd = 0; fd < 1024; fd++) {
                int type = 0;
                socklen_t n_bytes = sizeof(type);

                if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n_bytes) == 0 &&
                    type == SOCK_SEQPACKET)
                        (void)shutdown(fd, SHUT_RDWR);
        }
}

/* What was held and what was leased is charged once, to the connection that there is, and ends. */
TEST(a_cut_connection_is_replaced)
{
        unsigned char *old = must_alloc(on_device(0, 4 * MIB)), *cut, *fresh;

        restart_daemon(NULL);
        cut = must_alloc(on_device(0, 8 * MIB));
        daemon_await(FIGURE_declared, 4 * MIB);
        cut_connection();
        fresh = must_alloc(on_device(0, 16 * MIB));
        daemon_await(FIGURE_declared, 12 * MIB);
        daemon_await(FIGURE_charged, 28 * MIB);
        ck_assert_uint_eq(count_own_rows(), 1);
        fill(0, cut, 0x44, 4096);
        check_filled(0, cut, 0x44, 4096);
        must_free(0, old);
        daemon_await(FIGURE_declared, 8 * MIB);
        cut_connection();
        must_free(0, cut);
        must_free(0, must_alloc(on_device(0, 32 * MIB)));
        daemon_await(FIGURE_declared, 16 * MIB);
        must_free(0, fresh);
        daemon_await(FIGURE_charged, 0);
}

struct churner {
        unsigned seed;
        _Atomic bool *over;
};

/* Without a daemon there may be no memory; what there is must be right. */
static void *churn(void *argument)
{
        struct churner *churner = argument;
        unsigned device = churner->seed % n_gpus;
        struct gpumem_request request = on_device(device, 0);
        void *held[8] = {NULL};

        while (!atomic_load(churner->over)) {
                unsigned slot = (unsigned)rand_r(&churner->seed) % 8;
                int r;

                must_free(device, held[slot]);
                held[slot] = NULL;
                request.n_bytes = 1 + (unsigned)rand_r(&churner->seed) % (3 * MIB);
                r = gpumem_alloc(client, &request, &held[slot]);
                ck_assert_msg(r == 0 || r == GPUMEM_E_DISCONNECTED, "%s", gpumem_strerror(r));
        }
        for (unsigned slot = 0; slot < 8; slot++)
                must_free(device, held[slot]);
        return NULL;
}

TEST(daemons_may_go_at_any_moment)
{
        _Atomic bool over = false;
        struct churner churners[N_THREADS];
        pthread_t threads[N_THREADS];

        for (unsigned i = 0; i < N_THREADS; i++) {
                churners[i] = (struct churner){i, &over};
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
        }
        for (unsigned i = 0; i < 12; i++) {
                while (!daemon_figure(FIGURE_creates))
                        sleep_ms(1);
                restart_daemon(i % 3 || n_gpus == 1 ? NULL : "1,0");
        }
        atomic_store(&over, true);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        /* The last daemon may not have been asked for anything. */
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL), 0);
        daemon_await(FIGURE_charged, 0);
}

TESTS_MAIN("reconnect", .limit_s = 60, .start = reconnect_start, .stop = reconnect_stop)
