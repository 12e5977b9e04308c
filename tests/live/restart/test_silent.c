/* SPDX-License-Identifier: Apache-2.0 */
/* A stopped daemon, which neither answers nor ends: no client waits for it for ever. When it continues, it
 * serves all clients again. */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/fdset.h"
#include "client/api/client.h"
#include "client/connection/connect.h"
#include "client/connection/link_private.h"
#include "client/runtime/last_error.h"
#include "tests/live/worlds/program.h"

/* For links that a test opens itself. They are as patient as others until the daemon is stopped. */
#define SOON_MS   400
#define N_THREADS 4

/* Longer than a daemon that was not stopped ever pauses. */
#define LATER_MS 3000

static struct link *must_open(uint32_t answer_ms)
{
        struct timeval half = {answer_ms / 2000, (suseconds_t)(answer_ms / 2 % 1000) * 1000};
        struct link *link = open_link("impatient", NULL);

        link->answer_ms = answer_ms;
        ck_assert_int_eq(setsockopt(link->socket.fd, SOL_SOCKET, SO_RCVTIMEO, &half, sizeof(half)),
                         0);
        return link;
}

static int ask_for_stats(struct link *link)
{
        struct frame request = FRAME_NULL;

        return ask_over(link, &request, MESSAGE_STATS, NULL);
}

/* The process, and the socket at which it is to be found. */
static void check_names_daemon(const char *text)
{
        char process[32];

        (void)snprintf(process, sizeof(process), "(process %d)", (int)gpumemd.pid);
        must_contain(text, process);
        must_contain(text, gpumemd.socket);
}

TEST(a_stopped_daemon_is_lost)
{
        struct link *link = must_open(SOON_MS);

        daemon_suspend(&gpumemd);
        ck_assert_int_eq(ask_for_stats(link), GPUMEM_E_DISCONNECTED);
        ck_assert(link_is_silent(link));
        check_names_daemon(last_error_reason(GPUMEM_E_DISCONNECTED));
        must_contain(last_error_reason(GPUMEM_E_DISCONNECTED), "has not answered");
        /* Its late answers have no receiver. */
        daemon_resume(&gpumemd);
        daemon_await(FIGURE_charged, 0);
        ck_assert_int_eq(ask_for_stats(link), GPUMEM_E_DISCONNECTED);
        link_free(link);
}

TEST(a_stopped_daemon_takes_nobody_in)
{
        struct link_hello hello = {.program = "impatient", .answer_ms = SOON_MS};
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link = NULL;

        daemon_suspend(&gpumemd);
        ck_assert_int_eq(link_open(NULL, &hello, &link, &welcome, &fds), GPUMEM_E_DISCONNECTED);
        ck_assert_ptr_null(link);
        check_names_daemon(last_error_reason(GPUMEM_E_DISCONNECTED));
        daemon_resume(&gpumemd);
        link_free(must_open(SOON_MS));
}

/* More than wait to be taken in. */
static struct fork_socket sockets[256];
static unsigned n_sockets;

static void knock_at_stopped(void)
{
        daemon_suspend(&gpumemd);
        while (n_sockets < ARRAY_SIZE(sockets) && connect_open(NULL, 1, &sockets[n_sockets]) == 0)
                n_sockets++;
        ck_assert_uint_lt(n_sockets, ARRAY_SIZE(sockets) - 1);
}

static void knock_no_more(void)
{
        for (unsigned i = 0; i <= n_sockets; i++)
                fork_socket_close(&sockets[i]);
        daemon_resume(&gpumemd);
}

TEST(however_many_knock)
{
        knock_at_stopped();
        must_contain(last_error_reason(GPUMEM_E_DISCONNECTED), "accepts no connections");
        must_contain(last_error_reason(GPUMEM_E_DISCONNECTED), gpumemd.socket);
        knock_no_more();
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

        knock_at_stopped();
        ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
        ck_assert_int_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
        n_sockets++;
        ck_assert_int_eq(connect_open(NULL, SOON_MS, &sockets[n_sockets]), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(setitimer(ITIMER_REAL, &none, NULL), 0);
        knock_no_more();
        must_contain(last_error_reason(GPUMEM_E_DISCONNECTED), "accepts no connections");
}

/* One that waits for memory waits for as long as it likes, if the daemon is there. */
TEST(a_daemon_that_is_there_is_waited_for)
{
        const struct message_lease all = {.n_bytes = 256 * MIB};
        const struct message_lease more = {.n_bytes = 2 * MIB, .wait_ms = 3 * LATER_MS / 2};
        struct link *holder = must_open(LATER_MS), *waiting = must_open(LATER_MS);
        struct message_leased held, leased;

        ck_assert_int_eq(lease_over(holder, &all, &held), 0);
        ck_assert_int_eq(lease_over(waiting, &more, &leased), GPUMEM_E_TIMED_OUT);
        ck_assert_int_eq(ask_for_stats(waiting), 0);
        return_over(holder, held.lease, PROTO_RETURN_UNMAPPED);
        link_free(waiting);
        link_free(holder);
}

/* What is only sent waits for room. */
TEST(who_only_sends_is_not_held_up_either)
{
        struct link *link = must_open(SOON_MS);
        struct frame frame = {.return_lease = {.lease = 12345}};
        int r = 0;

        daemon_suspend(&gpumemd);
        for (unsigned i = 0; !r && i < 100000; i++)
                r = link_send(link, &frame, MESSAGE_RETURN);
        ck_assert_int_eq(r, GPUMEM_E_DISCONNECTED);
        ck_assert(link_is_silent(link));
        daemon_resume(&gpumemd);
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

        daemon_suspend(&gpumemd);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_on_thread, link), 0);
        for (unsigned i = 0; i < N_THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        daemon_resume(&gpumemd);
        link_free(link);
}

/* In the library's own time. What is allocated stays; it is charged once when the daemon goes on. */
TEST(a_program_goes_on_without)
{
        unsigned char *held = alloc_on(0, 8 * MIB, 0);
        void *pointer;

        daemon_suspend(&gpumemd);
        ck_assert_int_eq(try_on(0, 16 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
        check_names_daemon(refusal_of(client).text);
        check_device_bytes(0, held, 4096);
        daemon_resume(&gpumemd);
        pointer = alloc_on(0, 16 * MIB, 0);
        daemon_await(FIGURE_charged, 24 * MIB);
        free_on(0, held);
        free_on(0, pointer);
        daemon_await(FIGURE_charged, 0);
}

/* The HELLO of one that did not wait for its answer is taken when the daemon goes on, and its end. */
TEST(what_is_held_is_charged_though_a_hello_was_given_up)
{
        unsigned char *held = alloc_on(0, 8 * MIB, 0);
        void *pointer;

        daemon_suspend(&gpumemd);
        ck_assert_int_eq(try_on(0, 16 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(try_on(0, 16 * MIB, &pointer), GPUMEM_E_DISCONNECTED);
        daemon_resume(&gpumemd);
        (void)daemon_quiet_fds(&gpumemd);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        /* A block that was made for the request before its client's end was seen is cached. */
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved) - daemon_figure(FIGURE_cached), 8 * MIB);
        check_device_bytes(0, held, 4096);
        pointer = alloc_on(0, 16 * MIB, 0);
        daemon_await(FIGURE_declared, 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 24 * MIB);
        free_on(0, held);
        free_on(0, pointer);
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

/* How many connects to a stopped daemon fail in a call that asks for a block that is still mapped. */
static uint64_t ask_in_vain_for_kept(void)
{
        struct gpumem_request request = on_device(0, 120 * MIB);
        uint64_t n_attempts;
        void *pointer;

        have_kept(&request);
        daemon_suspend(&gpumemd);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_DISCONNECTED);
        n_attempts = client->reconnector.n_attempts;
        check_names_daemon(refusal_of(client).text);
        daemon_resume(&gpumemd);
        must_free(&request, must_alloc(&request));
        return n_attempts;
}

/* A process that stands still for so long keeps nothing, and asks for other blocks. */
#define TRIES 4

/* A daemon that did not answer such a request is not asked for other blocks in the same call, and no new
 * connect is tried: the next call does that. */
TEST(nobody_waits_for_kept_blocks_and_then_for_others)
{
        unsigned n = 0;

        while (ask_in_vain_for_kept())
                ck_assert_uint_lt(++n, TRIES);
}

TESTS_MAIN("silent", .limit_s = 120, .start = program_start, .stop = program_stop)
