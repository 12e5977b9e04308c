/* SPDX-License-Identifier: Apache-2.0 */
/* A client that outlives its daemons: without a daemon, and how it finds the next one. Memory of an earlier
 * daemon stays; the next daemon is told of it, and does not get it. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/live/support/listed.h"
#include "tests/live/worlds/program.h"

/* Pinned memory is of the driver's own. */
#define BY_DRIVER \
        OPTIONS("--pinned-bytes", "64MiB", "--device-bytes", "256MiB", "--pinned-backing", "vmm")

/* Whatever a test did: the client has as many fds as before, the daemon that is there now is charged nothing and can
 * give everything back. */
static void stop(void)
{
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpumem_disconnect(client);
        daemon_expect_empty();
        close_gpus();
        daemon_stop(&gpumemd);
}

/* It is of a daemon that has gone. */
static bool is_held(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.is_held;
}

/* The next daemon, which sees these devices; NULL: all. */
static void start_next(const char *visible)
{
        daemon_restart(&gpumemd, visible,
                       OPTIONS("--pinned-bytes", "64MiB", "--device-bytes", "256MiB"));
}

static void restart_daemon(const char *visible)
{
        daemon_kill(&gpumemd);
        start_next(visible);
}

/* The first daemon is one of its own: a driver opens files at its first work. */
static void start(void)
{
        program_start_with("devices=2,bytes=256MiB,reclaim_ms=0", BY_DRIVER);
        gpumem_disconnect(client);
        restart_daemon(NULL);
        client = connect_client();
        n_own_fds = own_fds();
}

#define N_THREADS 4

TEST(a_hit_needs_no_daemon)
{
        unsigned char *small = alloc_on(0, 4096, 0), *other;

        daemon_kill(&gpumemd);
        other = alloc_on(0, 4096, 0);
        ck_assert_uint_eq((uintptr_t)small / (2 * MIB), (uintptr_t)other / (2 * MIB));
        free_on(0, small);
        free_on(0, other);
        start_next(NULL);
}

TEST(without_a_daemon_a_miss_says_so_each_time)
{
        unsigned char *held = alloc_on(0, 4096, 0);
        void *pointer = &held;

        daemon_kill(&gpumemd);
        for (unsigned i = 0; i < 3; i++) {
                ck_assert_int_eq(try_on(0, 4 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
                ck_assert_ptr_eq(pointer, &held);
        }
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL),
                         GPUMEM_E_DISCONNECTED);
        start_next(NULL);
        pointer = alloc_on(0, 4 * MIB, 0);
        daemon_await(FIGURE_declared, 2 * MIB);
        free_on(0, pointer);
        free_on(0, held);
}

/* Nothing of the present daemon is held: freeing all tells it so before any miss. */
TEST(a_daemon_that_ends_in_order_is_outlived_too)
{
        unsigned char *pointer = alloc_on(0, 4 * MIB, 0);

        ck_assert_int_eq(kill(gpumemd.pid, SIGTERM), 0);
        child_await(gpumemd.pid, 0);
        start_next(NULL);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL), 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        free_on(0, pointer);
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
        unsigned char *all = alloc_on(0, 256 * MIB, 0);
        struct waiter waiter = {.request = on_device(0, 4 * MIB)};
        pthread_t thread;
        void *pointer;

        waiter.request.wait_ms = 60000;
        ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_memory, &waiter), 0);
        daemon_await(FIGURE_waiting, 1);
        daemon_kill(&gpumemd);
        /* One that does not wait is not held up by one that does. */
        ck_assert_int_eq(try_on(0, 4 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
        start_next(NULL);
        if (machine_is_emulated())
                daemon_await(FIGURE_waiting, 1);
        daemon_await(FIGURE_declared, 256 * MIB);
        free_on(0, all);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(waiter.result, 0);
        free_on(0, waiter.pointer);
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
        start_next(NULL);
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
        n_own_fds++; /* of the thread that hears the daemon */
        daemon_kill(&gpumemd);
        ck_assert_int_eq(try_on(0, 4 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_uint_eq(n_told, 2);
        ck_assert_int_eq(told[0], GPUMEM_EVENT_DAEMON_LOST);
        ck_assert_int_eq(told[1], GPUMEM_EVENT_REFUSED);
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), 0);
        start_next(NULL);
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
        n_own_fds++; /* of the thread that hears the daemon */
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
                free_on(0, waiters[i].pointer);
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
        unsigned char *old = alloc_on(0, 4 * MIB, 0), *cut, *fresh;

        restart_daemon(NULL);
        cut = alloc_on(0, 8 * MIB, 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        cut_connection();
        fresh = alloc_on(0, 16 * MIB, 0);
        daemon_await(FIGURE_declared, 12 * MIB);
        daemon_await(FIGURE_charged, 28 * MIB);
        ck_assert_uint_eq(count_own_rows(), 1);
        fill(0, cut, 0x44, 4096);
        check_filled(0, cut, 0x44, 4096);
        free_on(0, old);
        daemon_await(FIGURE_declared, 8 * MIB);
        cut_connection();
        free_on(0, cut);
        free_on(0, alloc_on(0, 32 * MIB, 0));
        daemon_await(FIGURE_declared, 16 * MIB);
        free_on(0, fresh);
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

                free_on(device, held[slot]);
                held[slot] = NULL;
                request.n_bytes = 1 + (unsigned)rand_r(&churner->seed) % (3 * MIB);
                r = gpumem_alloc(client, &request, &held[slot]);
                ck_assert_msg(r == 0 || r == GPUMEM_E_DISCONNECTED, "%s", gpumem_strerror(r));
        }
        for (unsigned slot = 0; slot < 8; slot++)
                free_on(device, held[slot]);
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

#define GPU_TOLERANCE (64 * MIB)

TEST(what_is_allocated_is_declared_to_the_next_daemon)
{
        unsigned char *old = alloc_on(0, 4 * MIB, 0), *fresh;
        unsigned char *old_pinned = alloc_pinned(100000);

        fill(0, old, 0x11, 64 * KIB);
        memset(old_pinned, 0x22, 100000);
        restart_daemon(NULL);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 0);
        fresh = alloc_on(0, 6 * MIB, 0);
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
        free_on(0, old_pinned);
        daemon_await(FIGURE_declared, 4 * MIB);
        free_on(0, old);
        free_on(0, fresh);
}

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
        for (unsigned ms = 0; ms < AWAIT_MS; ms += 5) {
                if (driver_free_bytes() + GPU_TOLERANCE >= n_bytes)
                        return;
                sleep_ms(5);
        }
        ck_assert_uint_ge(driver_free_bytes() + GPU_TOLERANCE, n_bytes);
}

/* Unmapped, and back at the driver; the next daemon never sees it. */
TEST(blocks_of_an_earlier_daemon_are_not_returned)
{
        uint64_t n_free_before = driver_free_bytes(), n_reserved;
        unsigned char *old = alloc_on(0, 128 * MIB, 0), *fresh;

        restart_daemon(NULL);
        fresh = alloc_on(0, 2 * MIB, 0);
        daemon_await(FIGURE_declared, 128 * MIB);
        free_on(0, old);
        daemon_await(FIGURE_declared, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_blocks), 1);
        n_reserved = daemon_figure(FIGURE_reserved);
        check_driver_free(n_free_before - n_reserved);
        free_on(0, fresh);
        daemon_await(FIGURE_cached, n_reserved);
}

/* Daemon after daemon: held is what any of the earlier ones made. */
TEST(a_client_outlives_many_daemons)
{
        unsigned char *pointers[5];

        for (unsigned i = 0; i < 5; i++) {
                pointers[i] = alloc_on(i % n_gpus, (i + 1) * 4 * MIB, 0);
                daemon_await(FIGURE_declared, (i * (i + 1) / 2) * 4 * MIB);
                fill(i % n_gpus, pointers[i], (unsigned char)(i + 1), 4096);
                restart_daemon(NULL);
        }
        for (unsigned i = 0; i < 5; i++) {
                check_filled(i % n_gpus, pointers[i], (unsigned char)(i + 1), 4096);
                free_on(i % n_gpus, pointers[i]);
        }
}

/* Pools have other numbers, or none. */
TEST(devices_are_known_by_what_they_are, NEEDS_TWO_DEVICES)
{
        unsigned char *on_0 = alloc_on(0, 4096, 0), *on_1, *fresh, *again;
        unsigned char *in_host = alloc_pinned(4096);
        void *pointer;

        on_1 = alloc_on(1, 4 * MIB, 0);
        fill(0, on_0, 1, 4096);
        fill(1, on_1, 2, 4096);
        restart_daemon("1");
        fresh = alloc_on(1, 6 * MIB, 0);
        ck_assert_int_eq(try_on(0, 4 * MIB, &pointer), GPUMEM_E_NO_POOL);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 6 * MIB);
        /* 4 MiB of device 1 and 2 MiB of pinned memory; of device 0 it knows nothing. */
        daemon_await(FIGURE_declared, 6 * MIB);
        fill(1, fresh, 3, 4096);
        check_filled(0, on_0, 1, 4096);
        check_filled(1, on_1, 2, 4096);
        again = alloc_on(0, 4096, 0);
        free_on(0, again);
        restart_daemon("1,0");
        again = alloc_on(0, 10 * MIB, 0);
        fill(0, again, 4, 4096);
        daemon_await(FIGURE_declared, 14 * MIB);
        check_filled(0, on_0, 1, 4096);
        check_filled(1, fresh, 3, 4096);
        free_on(0, on_0);
        free_on(0, again);
        free_on(1, on_1);
        free_on(1, fresh);
        free_on(0, in_host);
        daemon_await(FIGURE_declared, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 10 * MIB);
}

/* The same node's memory, made in another way: it is another pool. */
TEST(pinned_memory_may_be_made_in_another_way)
{
        unsigned char *old = alloc_pinned(100000), *fresh;

        memset(old, 0x5a, 100000);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, BY_DRIVER);
        fresh = alloc_pinned(3 * MIB);
        ck_assert(!is_held(fresh));
        memset(fresh, 1, 3 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 4 * MIB);
        for (unsigned i = 0; i < 100000; i++)
                ck_assert_uint_eq(old[i], 0x5a);
        free_on(0, old);
        free_on(0, fresh);
}

/* A daemon with a device more than the one that the client first met. */
TEST(a_device_that_comes_later_is_had, NEEDS_TWO_DEVICES)
{
        unsigned char *pointer;
        struct gpumem_client *first = client;
        void *none;

        restart_daemon("0");
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(try_on(1, 4096, &none), GPUMEM_E_NO_POOL);
        restart_daemon(NULL);
        pointer = alloc_on(1, 4096, 0);
        free_on(1, pointer);
        gpumem_disconnect(client);
        client = first;
}

/* Its lease's number may be another's by now: nothing is shared by it. What was attached stays too,
 * and is for its owner to declare. */
TEST(what_was_shared_stays_and_is_shared_no_more)
{
        struct gpumem_request request = on_device(0, 4 * MIB);
        struct gpumem_token token, other;
        struct gpumem_info info = {.struct_size = sizeof(info)};
        uint64_t n_bytes;
        unsigned char *own;
        void *attached, *fresh;

        request.flags |= GPUMEM_SHAREABLE;
        own = must_alloc(&request);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        fill(0, own, 0x77, 4096);
        restart_daemon(NULL);
        ck_assert_int_eq(gpumem_attach(client, &token, &fresh, &n_bytes), GPUMEM_E_NO_TOKEN);
        fresh = must_alloc(&request);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &other), GPUMEM_E_OUTLIVED);
        ck_assert_int_eq(gpumem_share(client, fresh, NULL, &other), 0);
        daemon_await(FIGURE_declared, 4 * MIB);
        check_filled(0, attached, 0x77, 4096);
        ck_assert_int_eq(gpumem_describe(client, (char *)attached + 4000, &info), 0);
        ck_assert(info.base == attached && info.is_attached && info.is_held);
        ck_assert_int_eq(gpumem_describe(client, fresh, &info), 0);
        ck_assert(info.base == fresh && !info.is_attached && !info.is_held);
        free_on(0, own);
        daemon_await(FIGURE_declared, 0);
        check_filled(0, attached, 0x77, 4096);
        ck_assert_int_eq(gpumem_detach(client, attached, gpu_stream(gpus[0])), 0);
        free_on(0, fresh);
}

/* What is held counts against a limit that the next daemon sets. */
TEST(what_is_held_is_within_limits)
{
        unsigned char *old = alloc_on(0, 8 * MIB, 0), *fresh;
        const struct message_set_limits change = {.scope = PROTO_LIMIT_OF_CLIENT,
                                                  .holder = PROTO_LIMIT_OF_EACH,
                                                  .kind = PROTO_LIMIT_DEVICE_BYTES,
                                                  .max = 12 * MIB};
        unsigned last = n_gpus - 1;
        struct link *link;
        void *pointer;

        restart_daemon(NULL);
        link = open_link("limits", NULL);
        ck_assert_int_eq(set_limit_over(link, &change, NULL), 0);
        link_free(link);
        fresh = alloc_on(0, 2 * MIB, 0);
        daemon_await(FIGURE_charged, 10 * MIB);
        ck_assert_int_eq(try_on(last, 4 * MIB, &pointer), GPUMEM_E_LIMIT);
        free_on(0, old);
        daemon_await(FIGURE_charged, 2 * MIB);
        free_on(last, alloc_on(last, 4 * MIB, 0));
        free_on(0, fresh);
}

static struct link *come_back(uint64_t incarnation, uint64_t *ret_incarnation)
{
        struct link_hello hello = {.program = "comes back",
                                   .incarnation = incarnation,
                                   .n_held_bytes = incarnation ? 8 * MIB : 0};
        struct message_welcome welcome;
        struct fdset fds = FDSET_NULL;
        struct link *link;

        ck_assert_int_eq(link_open(NULL, &hello, &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        *ret_incarnation = welcome.incarnation;
        return link;
}

static void say_held(struct link *link, uint64_t n_bytes)
{
        struct frame frame = {.held = {.n_bytes = n_bytes}};

        say_over(link, &frame, MESSAGE_HELD);
}

/* A HELLO may be one whose sender has given up; what is said after WELCOME is not. */
TEST(a_charge_stands_until_it_is_said_what_is_held)
{
        uint64_t incarnation = 0;
        struct link *link = come_back(0, &incarnation);

        link_free(link);
        link = come_back(incarnation, &incarnation);
        say_held(link, 8 * MIB);
        daemon_await(FIGURE_declared, 8 * MIB);
        link_free(link);
        link_free(come_back(incarnation, &incarnation));
        (void)daemon_quiet_fds(&gpumemd);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        link = come_back(incarnation, &incarnation);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        say_held(link, 2 * MIB);
        daemon_await(FIGURE_charged, 2 * MIB);
        say_held(link, 0);
        daemon_await(FIGURE_charged, 0);
        link_free(link);
}

TESTS_MAIN("reconnect", .limit_s = 60, .start = start, .stop = stop)
