/* A client and the daemons that it outlives: what is allocated stays, the next daemon is found and
 * told of it, and nothing of the last one is given to the next. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/listed.h"
#include "tests/suite.h"

#define N_THREADS     4
#define PATIENCE_MS   20000
#define GPU_TOLERANCE (64 * MIB)

static const char *const daemon_options[] = {"--pinned-bytes", "64MiB", "--device-bytes", "256MiB",
                                             NULL};
static const char *const by_driver[] = {
        "--pinned-bytes", "64MiB", "--device-bytes", "256MiB", "--pinned-backing", "vmm", NULL};
static struct daemon gpumemd;
static struct gpu *gpus[2];
static unsigned n_gpus;
static struct gpumem_client *client;
static unsigned n_own_fds;

/* Whatever a test did: the client has as many fds as before, the daemon that is there now is charged
 * nothing and can give everything back. */
static void stop(void)
{
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpumem_disconnect(client);
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        for (unsigned device = 0; device < n_gpus; device++)
                gpu_free(gpus[device]);
        daemon_stop(&gpumemd);
}

static struct gpumem_request on_device(unsigned device, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = (int32_t)device,
                                       .stream = gpu_stream(gpus[device]),
                                       .n_bytes = n_bytes};
}

static struct gpumem_request pinned(uint64_t n_bytes)
{
        struct gpumem_request request = on_device(0, n_bytes);

        request.kind = GPUMEM_PINNED;
        request.place = GPUMEM_NEAREST;
        return request;
}

static int try_alloc(struct gpumem_request request, void **ret_pointer)
{
        return gpumem_alloc(client, &request, ret_pointer);
}

static unsigned char *must_alloc(struct gpumem_request request)
{
        void *pointer;
        int r = try_alloc(request, &pointer);

        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

static void must_free(unsigned device, void *pointer)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpus[device])), 0);
}

static void fill(unsigned device, void *pointer, unsigned char byte, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_fill(gpus[device], pointer, byte, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
}

static void check_filled(unsigned device, const void *pointer, unsigned char byte, uint64_t n_bytes)
{
        unsigned char *staged;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_restart(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], n_bytes, (void **)&staged), 0);
        memset(staged, (unsigned char)~byte, n_bytes);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < n_bytes; i++)
                ck_assert_uint_eq(staged[i], byte);
}

static bool is_held(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.is_held;
}

static void restart_daemon(const char *visible)
{
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, visible, daemon_options);
}

/* Memory of each kind from a daemon of its own: a driver opens files at its first work. */
static void do_first_work(void)
{
        unsigned char *pointer = must_alloc(pinned(4096));

        memset(pointer, 1, 4096);
        must_free(0, pointer);
        for (unsigned device = 0; device < n_gpus; device++) {
                pointer = must_alloc(on_device(device, 4096));
                fill(device, pointer, 1, 4096);
                check_filled(device, pointer, 1, 4096);
                must_free(device, pointer);
        }
}

static void start(void)
{
        n_gpus = machine_n_devices();
        daemon_start(&gpumemd, "devices=2,bytes=256MiB,reclaim_ms=0", by_driver);
        for (unsigned device = n_gpus; device-- > 0;)
                ck_assert_int_eq(gpu_new((int)device, &gpus[device]), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        do_first_work();
        gpumem_disconnect(client);
        restart_daemon(NULL);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        n_own_fds = own_fds();
}

START_TEST(what_is_allocated_is_declared_to_the_next_daemon)
{
        unsigned char *old = must_alloc(on_device(0, 4 * MIB)), *fresh;
        unsigned char *old_pinned = must_alloc(pinned(100000));

        fill(0, old, 0x11, 64 * KIB);
        memset(old_pinned, 0x22, 100000);
        restart_daemon(NULL);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        fresh = must_alloc(on_device(0, 6 * MIB));
        daemon_await(FIGURE_declared, 6 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 12 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 6 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 10 * MIB + 100000);
        ck_assert(is_held(old) && is_held(old_pinned) && !is_held(fresh));
        fill(0, fresh, 0x33, 64 * KIB);
        check_filled(0, old, 0x11, 64 * KIB);
        check_filled(0, fresh, 0x33, 64 * KIB);
        for (unsigned i = 0; i < 100000; i++)
                ck_assert_uint_eq(old_pinned[i], 0x22);
        must_free(0, old_pinned);
        daemon_await(FIGURE_declared, 4 * MIB);
        must_free(0, old);
        must_free(0, fresh);
}
END_TEST

static uint64_t driver_free_bytes(void)
{
        uint64_t n_free, n_total;

        ck_assert_int_eq(gpu_memory(gpus[0], &n_free, &n_total), 0);
        return n_free;
}

/* A GPU's driver counts what others use too, and has a killed process's memory a little later. */
static void check_driver_free(uint64_t n_bytes)
{
        if (machine_is_emulated()) {
                ck_assert_uint_eq(driver_free_bytes(), n_bytes);
                return;
        }
        for (unsigned ms = 0; ms < PATIENCE_MS; ms += 5) {
                if (driver_free_bytes() + GPU_TOLERANCE >= n_bytes)
                        return;
                sleep_ms(5);
        }
        ck_assert_uint_ge(driver_free_bytes() + GPU_TOLERANCE, n_bytes);
}

/* Unmapped, and back at the driver; the next daemon never sees it. */
START_TEST(blocks_of_an_earlier_daemon_are_not_returned)
{
        uint64_t n_free_before = driver_free_bytes(), n_reserved;
        unsigned char *old = must_alloc(on_device(0, 128 * MIB)), *fresh;

        restart_daemon(NULL);
        fresh = must_alloc(on_device(0, 2 * MIB));
        daemon_await(FIGURE_declared, 128 * MIB);
        must_free(0, old);
        daemon_await(FIGURE_declared, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_blocks), 1);
        n_reserved = daemon_figure(FIGURE_reserved);
        check_driver_free(n_free_before - n_reserved);
        must_free(0, fresh);
        daemon_await(FIGURE_cached, n_reserved);
}
END_TEST

START_TEST(a_hit_needs_no_daemon)
{
        unsigned char *small = must_alloc(on_device(0, 4096)), *other;

        daemon_kill(&gpumemd);
        other = must_alloc(on_device(0, 4096));
        ck_assert_uint_eq((uintptr_t)small / (2 * MIB), (uintptr_t)other / (2 * MIB));
        must_free(0, small);
        must_free(0, other);
        daemon_restart(&gpumemd, NULL, daemon_options);
}
END_TEST

START_TEST(without_a_daemon_a_miss_says_so_each_time)
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
        daemon_restart(&gpumemd, NULL, daemon_options);
        pointer = must_alloc(on_device(0, 4 * MIB));
        daemon_await(FIGURE_declared, 2 * MIB);
        must_free(0, pointer);
        must_free(0, held);
}
END_TEST

/* Daemon after daemon: held is what any of the earlier ones made. */
START_TEST(a_client_outlives_many_daemons)
{
        unsigned char *pointers[5];

        for (unsigned i = 0; i < 5; i++) {
                pointers[i] = must_alloc(on_device(i % n_gpus, (i + 1) * 4 * MIB));
                daemon_await(FIGURE_declared, (i * (i + 1) / 2) * 4 * MIB);
                fill(i % n_gpus, pointers[i], (unsigned char)(i + 1), 4096);
                restart_daemon(NULL);
        }
        for (unsigned i = 0; i < 5; i++) {
                check_filled(i % n_gpus, pointers[i], (unsigned char)(i + 1), 4096);
                must_free(i % n_gpus, pointers[i]);
        }
}
END_TEST

/* Nothing of the present daemon is held: freeing all tells it so before any miss. */
START_TEST(a_daemon_that_ends_in_order_is_outlived_too)
{
        unsigned char *pointer = must_alloc(on_device(0, 4 * MIB));

        ck_assert_int_eq(kill(gpumemd.pid, SIGTERM), 0);
        while (access(gpumemd.socket, F_OK) == 0)
                sleep_ms(5);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, daemon_options);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL), 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        must_free(0, pointer);
        daemon_await(FIGURE_declared, 0);
}
END_TEST

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
START_TEST(a_waiting_request_waits_for_the_next_daemon)
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
        daemon_restart(&gpumemd, NULL, daemon_options);
        if (machine_is_emulated())
                daemon_await(FIGURE_waiting, 1);
        daemon_await(FIGURE_declared, 256 * MIB);
        must_free(0, all);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(waiter.result, 0);
        must_free(0, waiter.pointer);
}
END_TEST

START_TEST(a_daemon_that_does_not_come_is_waited_for_in_vain)
{
        struct waiter waiter = {.request = on_device(0, 4 * MIB)};
        struct timespec begin, end;

        daemon_kill(&gpumemd);
        waiter.request.wait_ms = 300;
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        (void)wait_for_memory(&waiter);
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        ck_assert_int_eq(waiter.result, GPUMEM_E_DISCONNECTED);
        ck_assert_int_ge(
                (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000, 299);
        daemon_restart(&gpumemd, NULL, daemon_options);
}
END_TEST

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

START_TEST(events_are_told_in_the_order_of_things)
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
        daemon_restart(&gpumemd, NULL, daemon_options);
}
END_TEST

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

START_TEST(of_many_threads_one_connects)
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
END_TEST

/* Pools have other numbers, or none. */
START_TEST(devices_are_known_by_what_they_are)
{
        unsigned char *on_0 = must_alloc(on_device(0, 4096)), *on_1, *fresh, *again;
        unsigned char *in_host = must_alloc(pinned(4096));
        void *pointer;

        on_1 = must_alloc(on_device(1, 4 * MIB));
        fill(0, on_0, 1, 4096);
        fill(1, on_1, 2, 4096);
        restart_daemon("1");
        fresh = must_alloc(on_device(1, 6 * MIB));
        ck_assert_int_eq(try_alloc(on_device(0, 4 * MIB), &pointer), GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 6 * MIB);
        /* 4 MiB of device 1 and 2 MiB of pinned memory; of device 0 it knows nothing. */
        daemon_await(FIGURE_declared, 6 * MIB);
        fill(1, fresh, 3, 4096);
        check_filled(0, on_0, 1, 4096);
        check_filled(1, on_1, 2, 4096);
        again = must_alloc(on_device(0, 4096));
        must_free(0, again);
        restart_daemon("1,0");
        again = must_alloc(on_device(0, 10 * MIB));
        fill(0, again, 4, 4096);
        daemon_await(FIGURE_declared, 14 * MIB);
        check_filled(0, on_0, 1, 4096);
        check_filled(1, fresh, 3, 4096);
        must_free(0, on_0);
        must_free(0, again);
        must_free(1, on_1);
        must_free(1, fresh);
        must_free(0, in_host);
        daemon_await(FIGURE_declared, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 10 * MIB);
}
END_TEST

/* The same node's memory, made in another way: it is another pool. */
START_TEST(pinned_memory_may_be_made_in_another_way)
{
        unsigned char *old = must_alloc(pinned(100000)), *fresh;
        struct gpumem_info info = {.struct_size = sizeof(info)};

        memset(old, 0x5a, 100000);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, by_driver);
        fresh = must_alloc(pinned(3 * MIB));
        ck_assert_int_eq(gpumem_describe(client, fresh, &info), 0);
        ck_assert_uint_eq(info.is_held, 0);
        memset(fresh, 1, 3 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 4 * MIB);
        for (unsigned i = 0; i < 100000; i++)
                ck_assert_uint_eq(old[i], 0x5a);
        must_free(0, old);
        must_free(0, fresh);
}
END_TEST

/* A daemon with a device more than the one that the client first met. */
START_TEST(a_device_that_comes_later_is_had)
{
        unsigned char *pointer;
        struct gpumem_client *first = client;
        void *none;

        restart_daemon("0");
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(try_alloc(on_device(1, 4096), &none), GPUMEM_E_NO_POOL);
        restart_daemon(NULL);
        pointer = must_alloc(on_device(1, 4096));
        must_free(1, pointer);
        gpumem_disconnect(client);
        client = first;
}
END_TEST

/* Its lease's number may be another's by now: nothing is shared by it. What was attached stays too,
 * and is for its owner to declare. */
START_TEST(what_was_shared_stays_and_is_shared_no_more)
{
        struct gpumem_request request = on_device(0, 4 * MIB);
        struct gpumem_token token, other;
        struct gpumem_info info = {.struct_size = sizeof(info)};
        uint64_t n_bytes;
        unsigned char *own;
        void *attached, *fresh;

        request.flags = GPUMEM_SHAREABLE;
        own = must_alloc(request);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        fill(0, own, 0x77, 4096);
        restart_daemon(NULL);
        ck_assert_int_eq(gpumem_attach(client, &token, &fresh, &n_bytes), GPUMEM_E_NO_TOKEN);
        fresh = must_alloc(request);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &other), GPUMEM_E_OUTLIVED);
        ck_assert_int_eq(gpumem_share(client, fresh, NULL, &other), 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        check_filled(0, attached, 0x77, 4096);
        ck_assert_int_eq(gpumem_describe(client, (char *)attached + 4000, &info), 0);
        ck_assert(info.base == attached && info.is_attached && info.is_held);
        ck_assert_int_eq(gpumem_describe(client, fresh, &info), 0);
        ck_assert(info.base == fresh && !info.is_attached && !info.is_held);
        must_free(0, own);
        daemon_await(FIGURE_declared, 0);
        check_filled(0, attached, 0x77, 4096);
        ck_assert_int_eq(gpumem_detach(client, attached, gpu_stream(gpus[0])), 0);
        must_free(0, fresh);
}
END_TEST

/* What is held counts against a limit that the next daemon sets. */
START_TEST(what_is_held_is_within_limits)
{
        unsigned char *old = must_alloc(on_device(0, 8 * MIB)), *fresh;
        struct frame request = FRAME_NULL, reply;
        struct fdset fds = FDSET_NULL, reply_fds = FDSET_NULL;
        struct message_welcome welcome;
        unsigned last = n_gpus - 1;
        struct link *link;
        void *pointer;

        restart_daemon(NULL);
        request.set_limits = (struct message_set_limits){.scope = PROTO_LIMIT_OF_CLIENT,
                                                         .holder = UINT32_MAX,
                                                         .kind = PROTO_LIMIT_DEVICE_BYTES,
                                                         .max = 12 * MIB};
        ck_assert_int_eq(link_new(NULL, "limits", &link, &welcome, &fds), 0);
        ck_assert_int_eq(link_call(link, &request, MESSAGE_SET_LIMITS, MESSAGE_LIMITS_SET, &reply,
                                   &reply_fds),
                         0);
        fresh = must_alloc(on_device(0, 2 * MIB));
        daemon_await(FIGURE_charged, 10 * MIB);
        ck_assert_int_eq(try_alloc(on_device(last, 4 * MIB), &pointer), GPUMEM_E_LIMIT);
        must_free(0, old);
        daemon_await(FIGURE_charged, 2 * MIB);
        must_free(last, must_alloc(on_device(last, 4 * MIB)));
        must_free(0, fresh);
        fdset_deinit(&fds);
        link_free(link);
}
END_TEST

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
START_TEST(a_cut_connection_is_replaced)
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
END_TEST

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

START_TEST(daemons_may_go_at_any_moment)
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
END_TEST

/* What this machine cannot try is left out, and said so. */
static void add_particular(TCase *tests)
{
        if (machine_n_devices() > 1) {
                tcase_add_test(tests, devices_are_known_by_what_they_are);
                tcase_add_test(tests, a_device_that_comes_later_is_had);
        } else {
                (void)puts("# left out: devices_are_known_by_what_they_are: one device only");
                (void)puts("# left out: a_device_that_comes_later_is_had: one device only");
        }
        (void)fflush(stdout);
}

int main(void)
{
        Suite *suite = suite_create("reconnect");
        TCase *tests = tcase_create("reconnect");

        tcase_set_timeout(tests, 60);
        tcase_add_checked_fixture(tests, start, stop);
        tcase_add_test(tests, what_is_allocated_is_declared_to_the_next_daemon);
        tcase_add_test(tests, blocks_of_an_earlier_daemon_are_not_returned);
        tcase_add_test(tests, a_hit_needs_no_daemon);
        tcase_add_test(tests, without_a_daemon_a_miss_says_so_each_time);
        tcase_add_test(tests, a_client_outlives_many_daemons);
        tcase_add_test(tests, a_daemon_that_ends_in_order_is_outlived_too);
        tcase_add_test(tests, a_waiting_request_waits_for_the_next_daemon);
        tcase_add_test(tests, a_daemon_that_does_not_come_is_waited_for_in_vain);
        tcase_add_test(tests, events_are_told_in_the_order_of_things);
        tcase_add_test(tests, of_many_threads_one_connects);
        tcase_add_test(tests, pinned_memory_may_be_made_in_another_way);
        tcase_add_test(tests, what_was_shared_stays_and_is_shared_no_more);
        tcase_add_test(tests, what_is_held_is_within_limits);
        tcase_add_test(tests, a_cut_connection_is_replaced);
        tcase_add_test(tests, daemons_may_go_at_any_moment);
        add_particular(tests);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
