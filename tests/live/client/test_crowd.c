/* SPDX-License-Identifier: Apache-2.0 */
/* 32 processes at once, each with its own client and 10,000 allocations: of every device and pinned, from
 * 512 bytes to 256 MiB, in several streams, some shared with the next process. No call fails, the bytes
 * that are checked are right, and in the end everything is returned, by the statistics of the clients, of
 * the daemon and its fds, and of the driver.
 *
 * Half-way all processes want half a device each, and a process that has its half keeps it until another
 * one was refused. So more is wanted than exists, on a machine of any speed, and waiting helps. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "tests/demo/gpu.h"
#include "tests/live/client/crowd.h"
#include "tests/live/support/daemon.h"
#include "tests/suite.h"

#define N_CLIENTS 32

/* Default of GPUMEM_TEST_STEPS. With a sanitizer this takes many times as long. */
#if defined(__SANITIZE_THREAD__)
#define N_STEPS 100
#elif defined(__SANITIZE_ADDRESS__)
#define N_STEPS 1000
#else
#define N_STEPS 10000
#endif

/* A client before the crowd, on a GPU: its driver opens files of its own at first. */
#define N_FIRST_STEPS 200

/* On a GPU, other programs and the driver itself take and free memory at any time. */
#define N_OTHERS_BYTES (machine_is_emulated() ? 0 : 16 * MIB)

#define TIMEOUT_S 280

struct member {
        pid_t pid;
        int fd;
        bool has_answered;
        struct crowd_counts counts;
};

static struct gpu *gpus[CROWD_DEVICES_MAX];
static uint64_t n_used_bytes[CROWD_DEVICES_MAX];
static unsigned n_devices, n_daemon_fds;
static struct member members[N_CLIENTS];
static unsigned n_members, n_answered;

static uint64_t used_bytes(unsigned device)
{
        uint64_t n_free, n_total;

        ck_assert_int_eq(gpu_memory(gpus[device], &n_free, &n_total), 0);
        return n_total - n_free;
}

static void remember(void)
{
        n_daemon_fds = daemon_quiet_fds(&gpumemd);
        for (unsigned i = 0; i < n_devices; i++)
                n_used_bytes[i] = used_bytes(i);
}

/* Fds other than standard input are passed on unchanged. */
static void start_member(unsigned index, uint64_t n_steps, uint64_t seed, int next_fd, int last_fd)
{
        posix_spawn_file_actions_t actions;
        char texts[CROWD_N_ARGS][24];
        char *arguments[CROWD_N_ARGS + 3] = {program_invocation_name, (char *)CROWD_WORD};
        int control[2];

        (void)snprintf(texts[CROWD_ARG_INDEX], sizeof(*texts), "%u", index);
        (void)snprintf(texts[CROWD_ARG_STEPS], sizeof(*texts), "%" PRIu64, n_steps);
        (void)snprintf(texts[CROWD_ARG_DEVICES], sizeof(*texts), "%u", n_devices);
        (void)snprintf(texts[CROWD_ARG_SEED], sizeof(*texts), "%" PRIu64, seed);
        (void)snprintf(texts[CROWD_ARG_NEXT_FD], sizeof(*texts), "%d", next_fd);
        (void)snprintf(texts[CROWD_ARG_LAST_FD], sizeof(*texts), "%d", last_fd);
        for (unsigned i = 0; i < CROWD_N_ARGS; i++)
                arguments[2 + i] = texts[i];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
        ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
        ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, control[1], STDIN_FILENO), 0);
        members[index] = (struct member){.fd = control[0]};
        ck_assert_int_eq(posix_spawnp(&members[index].pid, program_invocation_name, &actions, NULL,
                                      arguments, environ),
                         0);
        n_members = index + 1;
        (void)posix_spawn_file_actions_destroy(&actions);
        (void)close(control[1]);
}

/* Each process has a socket to the next one; the last one's next is the first. */
static void start_members(unsigned n, uint64_t n_steps, uint64_t seed)
{
        int pairs[N_CLIENTS][2];

        for (unsigned i = 0; i < n; i++)
                ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]), 0);
        for (unsigned i = 0; i < n; i++)
                start_member(i, n_steps, seed, pairs[i][0], pairs[(i + n - 1) % n][1]);
        for (unsigned i = 0; i < n; i++) {
                (void)close(pairs[i][0]);
                (void)close(pairs[i][1]);
        }
}

/* Its message is on stderr. Check ends the other processes. */
static void check_there(unsigned index, ssize_t n_bytes)
{
        ck_assert_msg(n_bytes == sizeof(struct crowd_news), "client %u ended too early", index);
}

static void tell_all(enum crowd_word word)
{
        struct crowd_news news = {.word = word};

        for (unsigned i = 0; i < n_members; i++)
                check_there(i, send(members[i].fd, &news, sizeof(news), MSG_NOSIGNAL));
}

static void hear(unsigned index, enum crowd_word word)
{
        struct crowd_news news;

        check_there(index, recv(members[index].fd, &news, sizeof(news), 0));
        ck_assert_int_eq(news.word, word);
        members[index].counts = news.counts;
        members[index].has_answered = true;
        n_answered++;
}

/* Waits for at least one of the processes that have not answered. */
static void hear_some(enum crowd_word word)
{
        struct pollfd fds[N_CLIENTS];

        for (unsigned i = 0; i < n_members; i++)
                fds[i] = (struct pollfd){.fd = members[i].has_answered ? -1 : members[i].fd,
                                         .events = POLLIN};
        ck_assert_int_gt(poll(fds, n_members, -1), 0);
        for (unsigned i = 0; i < n_members; i++) {
                if (fds[i].revents)
                        hear(i, word);
        }
}

static void hear_all(enum crowd_word word)
{
        while (n_answered < n_members)
                hear_some(word);
        for (unsigned i = 0; i < n_members; i++)
                members[i].has_answered = false;
        n_answered = 0;
}

static uint64_t n_refused(void)
{
        uint64_t n = 0;

        for (unsigned i = 0; i < n_members; i++)
                n += members[i].counts.refused;
        return n;
}

static void pass_crush(void)
{
        while (n_answered < n_members && !n_refused())
                hear_some(CROWD_CRUSHED);
        tell_all(CROWD_LET_GO);
        hear_all(CROWD_CRUSHED);
}

/* They are still connected, so the daemon's counts are for them. */
static void expect_nothing_held(void)
{
        daemon_await(FIGURE_leased, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 0);
        daemon_await(FIGURE_charged, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_requested), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_waiting), 0);
}

static void await_ends(void)
{
        for (unsigned i = 0; i < n_members; i++) {
                int status = -1;

                ck_assert_int_eq(waitpid(members[i].pid, &status, 0), members[i].pid);
                ck_assert_msg(status == 0, "client %u ended with %#x", i, (unsigned)status);
                (void)close(members[i].fd);
        }
}

/* A process's memory comes back some time after its end. */
static void await_used_bytes(unsigned device, uint64_t n_bytes)
{
        AWAIT(used_bytes(device) <= n_bytes);
}

static void expect_everything_back(void)
{
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_blocks), 0);
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        for (unsigned i = 0; i < n_devices; i++)
                await_used_bytes(i, n_used_bytes[i] + N_OTHERS_BYTES);
}

static void run(unsigned n, uint64_t n_steps, uint64_t seed)
{
        n_members = n_answered = 0;
        start_members(n, n_steps, seed);
        hear_all(CROWD_READY);
        tell_all(CROWD_START);
        pass_crush();
        hear_all(CROWD_RETURNED);
        expect_nothing_held();
        tell_all(CROWD_LEAVE);
        await_ends();
}

static void start(void)
{
        n_devices = machine_n_devices();
        daemon_start(&gpumemd, "devices=2,bytes=2GiB",
                     OPTIONS("--device-bytes", "2GiB", "--pinned-bytes", "1GiB"));
        for (unsigned i = 0; i < n_devices; i++)
                ck_assert_int_eq(gpu_new((int)i, &gpus[i]), 0);
        if (!machine_is_emulated()) {
                run(1, N_FIRST_STEPS, 0);
                daemon_free_all();
                daemon_await(FIGURE_reserved, 0);
        }
        remember();
}

static void stop(void)
{
        for (unsigned i = 0; i < n_devices; i++)
                gpu_free(gpus[i]);
        daemon_stop(&gpumemd);
}

static struct crowd_counts sum_counts(void)
{
        struct crowd_counts sum = {.allocations = 0};

        for (unsigned i = 0; i < n_members; i++) {
#define COUNT(name, text) sum.name += members[i].counts.name;
                CROWD_COUNTS(COUNT)
#undef COUNT
        }
        return sum;
}

/* Each kind of work must have happened at least once. */
static void expect_some_of_everything(const struct crowd_counts *sum)
{
#define COUNT(name, text)                                    \
        (void)printf("# %" PRIu64 " %s\n", sum->name, text); \
        ck_assert_uint_gt(sum->name, 0);
        CROWD_COUNTS(COUNT)
#undef COUNT
        ck_assert_uint_eq(sum->attached, sum->shared);
        ck_assert_uint_eq(sum->hits + sum->misses, sum->allocations);
}

TEST(a_crowd_gets_and_gives_back_all_it_wants)
{
        uint64_t n_steps = test_number_from_environment("GPUMEM_TEST_STEPS", N_STEPS);
        uint64_t seed = test_random_begin().state;
        uint64_t start_ms = clock_now_ms();
        struct crowd_counts sum;

        run(N_CLIENTS, n_steps, seed);
        sum = sum_counts();
        (void)printf("# figure: crowd: %u clients, %" PRIu64 " allocations each, %.1f s\n",
                     N_CLIENTS, n_steps, (double)(clock_now_ms() - start_ms) / 1000);
        expect_some_of_everything(&sum);
        (void)fflush(stdout);
        ck_assert_uint_eq(sum.allocations, N_CLIENTS * n_steps);
        expect_everything_back();
}

int main(int argc, char **argv)
{
        if (argc == 2 + CROWD_N_ARGS && strcmp(argv[1], CROWD_WORD) == 0)
                return crowd_client_main(argv + 2);
        return run_all_tests(&(const struct test_case){"crowd", .limit_s = TIMEOUT_S,
                                                       .start = start, .stop = stop},
                             run_suite);
}
