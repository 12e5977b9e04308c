/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that is stopped, so that it neither answers nor goes: nobody waits for it for ever, and when
 * it goes on it goes on with everybody. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "client/api/client.h"
#include "client/connection/connect.h"
#include "client/connection/link_private.h"
#include "client/runtime/last_error.h"
#include "tests/live/program.h"
#include "tests/suite.h"

/* For links that a test opens itself. They are as patient as others until the daemon is stopped. */
#define SOON_MS   400
#define N_THREADS 4

/* Longer than a daemon that nobody has stopped stands still. */
#define LATER_MS 3000

static void stop_daemon(void)
{
        int status;

        ck_assert_int_eq(kill(gpumemd.pid, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(gpumemd.pid, &status, WUNTRACED), gpumemd.pid);
        ck_assert(WIFSTOPPED(status));
}

static void continue_daemon(void)
{
        ck_assert_int_eq(kill(gpumemd.pid, SIGCONT), 0);
}

static int open_link(struct link **ret_link)
{
        struct link_hello hello = {.program = "impatient", .answer_ms = SOON_MS};
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        int r = link_open(NULL, &hello, ret_link, &welcome, &fds);

        fdset_deinit(&fds);
        return r;
}

static struct link *must_open(uint32_t answer_ms)
{
        struct link_hello hello = {.program = "impatient"};
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct timeval half = {answer_ms / 2000, (suseconds_t)(answer_ms / 2 % 1000) * 1000};
        struct link *link;

        ck_assert_int_eq(link_open(NULL, &hello, &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        link->answer_ms = answer_ms;
        ck_assert_int_eq(setsockopt(link->socket.fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof(half)),
                         0);
        return link;
}

static int ask_for_stats(struct link *link)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r = link_call(link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds);

        fdset_deinit(&fds);
        return r;
}

static int lease(struct link *link, uint64_t n_bytes, uint32_t wait_ms, uint64_t *ret_lease)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.wait_ms = wait_ms;
        r = link_call(link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        fdset_deinit(&fds);
        if (!r)
                *ret_lease = reply.leased.lease;
        return r;
}

/* The process, and the socket at which it is to be found. */
static void check_names_daemon(const char *text)
{
        char process[32];

        (void)snprintf(process, sizeof(process), "(process %d)", (int)gpumemd.pid);
        ck_assert_msg(strstr(text, process) && strstr(text, gpumemd.socket), "%s", text);
}

TEST(a_stopped_daemon_is_lost)
{
        struct link *link = must_open(SOON_MS);

        stop_daemon();
        ck_assert_int_eq(ask_for_stats(link), GPUMEM_E_DISCONNECTED);
        ck_assert(link_is_silent(link));
        check_names_daemon(last_error_reason(GPUMEM_E_DISCONNECTED));
        ck_assert_ptr_nonnull(strstr(last_error_reason(GPUMEM_E_DISCONNECTED), "has not answered"));
        /* What it says later is said to nobody. */
        continue_daemon();
        daemon_await(FIGURE_charged, 0);
        ck_assert_int_eq(ask_for_stats(link), GPUMEM_E_DISCONNECTED);
        link_free(link);
}

TEST(a_stopped_daemon_takes_nobody_in)
{
        struct link *link = NULL;

        stop_daemon();
        ck_assert_int_eq(open_link(&link), GPUMEM_E_DISCONNECTED);
        ck_assert_ptr_null(link);
        check_names_daemon(last_error_reason(GPUMEM_E_DISCONNECTED));
        continue_daemon();
        link_free(must_open(SOON_MS));
}

/* More than wait to be taken in. */
TEST(however_many_knock)
{
        struct fork_socket sockets[256];
        unsigned n = 0;

        stop_daemon();
        while (n < ARRAY_SIZE(sockets) && connect_open(NULL, 1, &sockets[n]) == 0)
                n++;
        ck_assert_uint_lt(n, ARRAY_SIZE(sockets));
        ck_assert_ptr_nonnull(strstr(last_error_reason(GPUMEM_E_DISCONNECTED), "takes nobody in"));
        ck_assert_ptr_nonnull(strstr(last_error_reason(GPUMEM_E_DISCONNECTED), gpumemd.socket));
        for (unsigned i = 0; i <= n; i++)
                fork_socket_close(&sockets[i]);
        continue_daemon();
        link_free(must_open(SOON_MS));
}

static void on_alarm(int number)
{
        (void)number;
}

/* A program that is timed by a signal, whose handler restarts calls. */
TEST(who_waits_to_be_taken_in_is_not_turned_away_by_a_signal)
{
        const struct itimerval timer = {{0, 20000}, {0, 20000}}, none = {{0, 0}, {0, 0}};
        const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        struct fork_socket sockets[256];
        unsigned n = 0;

        stop_daemon();
        while (n < ARRAY_SIZE(sockets) - 1 && connect_open(NULL, 1, &sockets[n]) == 0)
                n++;
        ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
        ck_assert_int_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
        n++;
        ck_assert_int_eq(connect_open(NULL, SOON_MS, &sockets[n]), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(setitimer(ITIMER_REAL, &none, NULL), 0);
        for (unsigned i = 0; i <= n; i++)
                fork_socket_close(&sockets[i]);
        continue_daemon();
        ck_assert_ptr_nonnull(strstr(last_error_reason(GPUMEM_E_DISCONNECTED), "takes nobody in"));
}

/* One that waits for memory waits for as long as it likes, if the daemon is there. */
TEST(a_daemon_that_is_there_is_waited_for)
{
        struct link *holder = must_open(LATER_MS), *waiting = must_open(LATER_MS);
        struct frame frame = FRAME_NULL;
        uint64_t number;

        ck_assert_int_eq(lease(holder, 256 * MIB, 0, &number), 0);
        frame.return_lease.lease = number;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        ck_assert_int_eq(lease(waiting, 2 * MIB, 3 * LATER_MS / 2, &number), GPUMEM_E_TIMED_OUT);
        ck_assert_int_eq(ask_for_stats(waiting), 0);
        ck_assert_int_eq(link_send(holder, &frame, MESSAGE_RETURN), 0);
        link_free(waiting);
        link_free(holder);
}

/* What is only sent waits for room. */
TEST(who_only_sends_is_not_held_up_either)
{
        struct link *link = must_open(SOON_MS);
        struct frame frame = FRAME_NULL;
        int r = 0;

        stop_daemon();
        frame.return_lease.lease = 12345;
        for (unsigned i = 0; !r && i < 100000; i++)
                r = link_send(link, &frame, MESSAGE_RETURN);
        ck_assert_int_eq(r, GPUMEM_E_DISCONNECTED);
        ck_assert(link_is_silent(link));
        continue_daemon();
        link_free(link);
}

static void *ask_on_thread(void *link)
{
        ck_assert_int_eq(ask_for_stats(link), GPUMEM_E_DISCONNECTED);
        check_names_daemon(last_error_reason(GPUMEM_E_DISCONNECTED));
        return NULL;
}

TEST(every_thread_is_told)
{
        struct link *link = must_open(SOON_MS);
        pthread_t threads[N_THREADS];

        stop_daemon();
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_on_thread, link), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        continue_daemon();
        link_free(link);
}

/* In the library's own time. What is allocated stays; it is charged once when the daemon goes on. */
TEST(a_program_goes_on_without)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_request first = on_device(0, 8 * MIB), next = on_device(0, 16 * MIB);
        unsigned char *held = must_alloc(&first);
        void *pointer;

        stop_daemon();
        ck_assert_int_eq(gpumem_alloc(client, &next, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        check_names_daemon(refusal.text);
        check_device_bytes(0, held, 4096);
        continue_daemon();
        pointer = must_alloc(&next);
        daemon_await(FIGURE_charged, 24 * MIB);
        must_free(&first, held);
        must_free(&next, pointer);
        daemon_await(FIGURE_charged, 0);
}

/* The HELLO of one that did not wait for its answer is taken when the daemon goes on, and its end. */
TEST(what_is_held_is_charged_though_a_hello_was_given_up)
{
        struct gpumem_request first = on_device(0, 8 * MIB), next = on_device(0, 16 * MIB);
        unsigned char *held = must_alloc(&first);
        void *pointer;

        stop_daemon();
        ck_assert_int_eq(gpumem_alloc(client, &next, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(gpumem_alloc(client, &next, &pointer), GPUMEM_E_DISCONNECTED);
        continue_daemon();
        (void)daemon_quiet_fds(&gpumemd);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 8 * MIB);
        check_device_bytes(0, held, 4096);
        pointer = must_alloc(&next);
        daemon_await(FIGURE_declared, 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 24 * MIB);
        must_free(&first, held);
        must_free(&next, pointer);
}

/* Its idle blocks are another client's for a moment: it keeps them mapped, and they are idle again. */
static void have_kept(const struct gpumem_request *request)
{
        struct gpumem_client *other;
        void *pointer;

        gpumem_disconnect(client);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        must_free(request, must_alloc(request));
        daemon_await(FIGURE_idle, request->n_bytes);
        ck_assert_int_eq(gpumem_connect(NULL, &other), 0);
        ck_assert_int_eq(gpumem_alloc(other, request, &pointer), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), request->n_bytes);
        ck_assert_uint_gt(daemon_figure(FIGURE_revocations), 0);
        ck_assert_int_eq(gpumem_free(other, pointer, request->stream), 0);
        gpumem_disconnect(other);
        daemon_await(FIGURE_leased, 0);
}

/* How often nobody was taken in by a stopped daemon in a call that asks for what is kept. */
static uint64_t ask_in_vain_for_kept(void)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        struct gpumem_request request = on_device(0, 120 * MIB);
        uint64_t n_attempts;
        void *pointer;

        have_kept(&request);
        stop_daemon();
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DISCONNECTED);
        n_attempts = client->reconnector.n_attempts;
        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        check_names_daemon(refusal.text);
        continue_daemon();
        must_free(&request, must_alloc(&request));
        return n_attempts;
}

/* A process that stands still for so long keeps nothing, and asks for other blocks. */
#define TRIES 4

/* One that was asked for what the process maps still is not asked for other blocks in the same call, and
 * nobody tries to be taken in: that is the next call's. */
TEST(nobody_waits_for_kept_blocks_and_then_for_others)
{
        unsigned n = 0;

        while (ask_in_vain_for_kept())
                ck_assert_uint_lt(++n, TRIES);
}

TESTS_MAIN("silent", .limit_s = 120, .start = program_start, .stop = program_stop)
