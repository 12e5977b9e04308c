/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a daemon that has gone: it stays, the next daemon is told of it, and is given nothing of it. */
#include <stdio.h>
#include <string.h>

#include "tests/live/reconnect_world.h"
#include "tests/suite.h"

#define PATIENCE_MS   20000
#define GPU_TOLERANCE (64 * MIB)

TEST(what_is_allocated_is_declared_to_the_next_daemon)
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
TEST(blocks_of_an_earlier_daemon_are_not_returned)
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

/* Daemon after daemon: held is what any of the earlier ones made. */
TEST(a_client_outlives_many_daemons)
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

/* Pools have other numbers, or none. */
TEST(devices_are_known_by_what_they_are, NEEDS_TWO_DEVICES)
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

/* The same node's memory, made in another way: it is another pool. */
TEST(pinned_memory_may_be_made_in_another_way)
{
        unsigned char *old = must_alloc(pinned(100000)), *fresh;
        struct gpumem_info info = {.struct_size = sizeof(info)};

        memset(old, 0x5a, 100000);
        daemon_kill(&gpumemd);
        daemon_restart(&gpumemd, NULL, reconnect_by_driver);
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

/* A daemon with a device more than the one that the client first met. */
TEST(a_device_that_comes_later_is_had, NEEDS_TWO_DEVICES)
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

/* What is held counts against a limit that the next daemon sets. */
TEST(what_is_held_is_within_limits)
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
        struct frame frame = FRAME_NULL;

        frame.held.n_bytes = n_bytes;
        ck_assert_int_eq(link_send(link, &frame, MESSAGE_HELD), 0);
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

/* What this machine cannot try is left out, and said so. */

TESTS_MAIN("reconnect_held", .limit_s = 60, .start = reconnect_start, .stop = reconnect_stop)
