/* SPDX-License-Identifier: Apache-2.0 */
/* What one user wrote no other one reads, in device memory and pinned: it is zero between them, however
 * the one before ended. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define ONE     65534
#define ANOTHER 65533

/* All of 256 and of 64 MiB: each one needs what the other one had. */
#define DEVICE_PIECE (32 * MIB)
#define PINNED_PIECE (16 * MIB)
#define N_PIECES     8
#define N_PINNED     4
#define CHUNK        (2 * MIB)
#define PAGE         4096
#define LONG_MS      20000

/* A sanitizer makes the same take many times as long. */
#if defined(__SANITIZE_THREAD__)
#define N_TURNS 3
#else
#define N_TURNS 12
#endif

static struct daemon gpumemd;

static void start(void)
{
        static const char *const options[] = {"--device-bytes", "256MiB", "--pinned-bytes", "64MiB",
                                              NULL};

        daemon_start(&gpumemd, "devices=1,bytes=288MiB,reclaim_ms=20", options);
        daemon_admit_all(&gpumemd);
}

static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

struct user {
        unsigned char byte; /* what it writes */
        struct gpumem_client *client;
        struct gpu *gpu;
        void *device[N_PIECES];
        void *pinned[N_PINNED];
};

static void open_as(struct user *user, uid_t uid)
{
        ck_assert_int_eq(gpu_new(0, &user->gpu), 0);
        ck_assert_int_eq(gpu_use(user->gpu), 0);
        ck_assert_int_eq(seteuid(uid), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &user->client), 0);
        ck_assert_int_eq(seteuid(getuid()), 0);
}

static void *alloc(const struct user *user, enum gpumem_kind kind, uint64_t n_bytes)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = kind,
                                         .place = kind == GPUMEM_PINNED ? GPUMEM_NEAREST : 0,
                                         .stream = gpu_stream(user->gpu),
                                         .n_bytes = n_bytes,
                                         .wait_ms = LONG_MS};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(user->client, &request, &pointer), 0);
        return pointer;
}

/* What is found where nothing was written yet. */
struct found {
        uint64_t n_zero;
        uint64_t n_own; /* from an earlier turn */
        uint64_t n_foreign;
};

static bool is_all(const unsigned char *bytes, unsigned char byte, uint64_t n_bytes)
{
        return bytes[0] == byte && memcmp(bytes, bytes + 1, n_bytes - 1) == 0;
}

static void look_at_page(const struct user *user, const unsigned char *bytes, struct found *found)
{
        if (is_all(bytes, 0, PAGE)) {
                found->n_zero += PAGE;
                return;
        }
        for (uint64_t i = 0; i < PAGE; i++) {
                found->n_zero += bytes[i] == 0;
                found->n_own += bytes[i] == user->byte;
                found->n_foreign += bytes[i] != 0 && bytes[i] != user->byte;
        }
}

static void look(const struct user *user, const unsigned char *bytes, uint64_t n_bytes,
                 struct found *found)
{
        for (uint64_t at = 0; at < n_bytes; at += PAGE)
                look_at_page(user, bytes + at, found);
}

static void look_on_device(const struct user *user, const char *from, struct found *found)
{
        void *staged;

        for (uint64_t at = 0; at < DEVICE_PIECE; at += CHUNK) {
                ck_assert_int_eq(gpu_restart(user->gpu), 0);
                ck_assert_int_eq(gpu_stage(user->gpu, CHUNK, &staged), 0);
                ck_assert_int_eq(gpu_copy_to_host(user->gpu, staged, from + at, CHUNK), 0);
                ck_assert_int_eq(gpu_synchronize(user->gpu), 0);
                look(user, staged, CHUNK, found);
        }
}

static void take_and_look(struct user *user, struct found *found)
{
        for (unsigned i = 0; i < N_PIECES; i++) {
                user->device[i] = alloc(user, GPUMEM_DEVICE, DEVICE_PIECE);
                look_on_device(user, user->device[i], found);
        }
        for (unsigned i = 0; i < N_PINNED; i++) {
                user->pinned[i] = alloc(user, GPUMEM_PINNED, PINNED_PIECE);
                look(user, user->pinned[i], PINNED_PIECE, found);
        }
}

static void write_all(const struct user *user)
{
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpu_fill(user->gpu, user->device[i], user->byte, DEVICE_PIECE), 0);
        for (unsigned i = 0; i < N_PINNED; i++)
                memset(user->pinned[i], user->byte, PINNED_PIECE);
        ck_assert_int_eq(gpu_synchronize(user->gpu), 0);
}

static void free_all(const struct user *user)
{
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(gpumem_free(user->client, user->device[i], gpu_stream(user->gpu)),
                                 0);
        for (unsigned i = 0; i < N_PINNED; i++)
                ck_assert_int_eq(gpumem_free(user->client, user->pinned[i], gpu_stream(user->gpu)),
                                 0);
}

enum ending { FREES_AND_LEAVES, JUST_LEAVES, IS_KILLED, N_ENDINGS };

static void be_user(int fd, uid_t uid, enum ending ending)
{
        struct user user = {.byte = uid == ONE ? 0xA5 : 0x5A};
        struct found found = {0};

        open_as(&user, uid);
        take_and_look(&user, &found);
        write_all(&user);
        if (ending == FREES_AND_LEAVES) {
                free_all(&user);
                gpumem_disconnect(user.client);
                gpu_free(user.gpu);
        }
        ck_assert_int_eq(send(fd, &found, sizeof(found), MSG_NOSIGNAL), sizeof(found));
        if (ending == IS_KILLED)
                (void)pause();
        exit(EXIT_SUCCESS);
}

/* One user's turn, in a process of its own. */
static struct found turn(uid_t uid, enum ending ending)
{
        struct found found;
        int fds[2];
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                (void)close(fds[0]);
                be_user(fds[1], uid, ending);
        }
        (void)close(fds[1]);
        ck_assert_int_eq(recv(fds[0], &found, sizeof(found), 0), sizeof(found));
        (void)close(fds[0]);
        if (ending == IS_KILLED)
                ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        return found;
}

TEST(in_twelve_turns_of_two_users_neither_finds_a_byte_of_the_other, NEEDS_ROOT)
{
        struct found all = {0};

        for (unsigned i = 0; i < N_TURNS; i++) {
                struct found found = turn(i % 2 ? ANOTHER : ONE, (enum ending)(i % N_ENDINGS));

                all.n_zero += found.n_zero;
                all.n_own += found.n_own;
                all.n_foreign += found.n_foreign;
        }
        (void)printf("# figure: zero canary, %u turns of two users, %" PRIu64
                     " MiB looked at: %" PRIu64 " zero, %" PRIu64
                     " the user's own of an earlier turn, %" PRIu64 " bytes another's\n",
                     N_TURNS, (all.n_zero + all.n_own + all.n_foreign) / MIB, all.n_zero / MIB,
                     all.n_own / MIB, all.n_foreign);
        (void)fflush(stdout);
        ck_assert_uint_eq(all.n_foreign, 0);
        ck_assert_uint_gt(all.n_zero, all.n_own);
}

/* Nobody else than root becomes another user. */
TEST(new_memory_is_zero)
{
        struct found found = turn(geteuid(), FREES_AND_LEAVES);

        ck_assert_uint_eq(found.n_own + found.n_foreign, 0);
}

TESTS_MAIN("zero", .limit_s = 120, .start = start, .stop = stop)
