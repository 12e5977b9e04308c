/* SPDX-License-Identifier: Apache-2.0 */
/* What one user has left in as much as a device has, the next one does not find: all of it is looked at. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/kernel.h"
#include "tests/suite.h"

/* Each turn is that of a user who had none before: what a user finds of its own, kept for it, is nobody's
 * harm. The first one finds a new device; each of the others what those before have left. */
#define N_PASSES     3
#define FIRST_USER   65530
#define FIRST_BYTE   0xA1
#define N_PIECES_MAX 256
#define N_PINNED     4
#define N_LOOKERS    8
#define CHUNK        (2 * MIB)
#define PAGE         4096
#define LONG_MS      20000
#define N_TOLD_MAX   16

/* A GPU's: what is left of it is for contexts, and for others. */
#define GPU_PIECE        GIB
#define GPU_PINNED_PIECE GIB
#define GPU_PART(whole)  ((whole) / 16 * 15)

/* A whole emulated device, on which contexts cost nothing. */
#define PIECE        (32 * MIB)
#define PINNED_PIECE (16 * MIB)

static struct daemon gpumemd;

/* What a turn's user writes. */
static unsigned char byte_of(unsigned turn)
{
        return (unsigned char)(FIRST_BYTE + turn);
}

/* What each user takes, of each kind. */
struct amount {
        uint64_t n_bytes; /* a piece */
        unsigned n_pieces;
};
static struct amount device, pinned;

static void start(void)
{
        static const char *const small[] = {"--device-bytes", "256MiB", "--pinned-bytes", "64MiB",
                                            NULL};
        static const char *const large[] = {"--pinned-bytes", "4GiB", NULL};
        bool is_gpu = kernel_is_real();

        daemon_start(&gpumemd, "devices=1,bytes=256MiB,reclaim_ms=20", is_gpu ? large : small);
        daemon_admit_all(&gpumemd);
        device.n_bytes = is_gpu ? GPU_PIECE : PIECE;
        device.n_pieces = (unsigned)((is_gpu ? GPU_PART(daemon_device_bytes()) : 256 * MIB) /
                                     device.n_bytes);
        ck_assert_uint_gt(device.n_pieces, 0);
        ck_assert_uint_le(device.n_pieces, N_PIECES_MAX);
        pinned.n_bytes = is_gpu ? GPU_PINNED_PIECE : PINNED_PIECE;
        pinned.n_pieces = N_PINNED;
}

static void stop(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

struct user {
        struct gpumem_client *client;
        struct gpu *gpu;
        char *device[N_PIECES_MAX], *pinned[N_PINNED];
};

static void open_as(struct user *user, uid_t uid)
{
        ck_assert_int_eq(gpu_new(0, &user->gpu), 0);
        ck_assert_int_eq(seteuid(uid), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &user->client), 0);
        ck_assert_int_eq(seteuid(getuid()), 0);
}

static char *alloc(const struct user *user, enum gpumem_kind kind, uint64_t n_bytes)
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

static void take_all(struct user *user)
{
        for (unsigned i = 0; i < device.n_pieces; i++)
                user->device[i] = alloc(user, GPUMEM_DEVICE, device.n_bytes);
        for (unsigned i = 0; i < pinned.n_pieces; i++)
                user->pinned[i] = alloc(user, GPUMEM_PINNED, pinned.n_bytes);
}

static void write_all(const struct user *user, unsigned char byte)
{
        for (unsigned i = 0; i < device.n_pieces; i++)
                ck_assert_int_eq(gpu_fill(user->gpu, user->device[i], byte, device.n_bytes), 0);
        for (unsigned i = 0; i < pinned.n_pieces; i++)
                memset(user->pinned[i], byte, pinned.n_bytes);
        ck_assert_int_eq(gpu_synchronize(user->gpu), 0);
}

static void free_all(const struct user *user)
{
        void *stream = gpu_stream(user->gpu);

        for (unsigned i = 0; i < device.n_pieces; i++)
                ck_assert_int_eq(gpumem_free(user->client, user->device[i], stream), 0);
        for (unsigned i = 0; i < pinned.n_pieces; i++)
                ck_assert_int_eq(gpumem_free(user->client, user->pinned[i], stream), 0);
}

struct found {
        uint64_t n_device, n_device_left; /* bytes looked at, bytes that are not zero */
        uint64_t n_pinned, n_pinned_left;
};

/* One of some threads that share the chunks, with a stream of its own. */
struct looker {
        const struct user *user;
        unsigned number;
        struct gpu *gpu;
        struct found found;
        pthread_t thread;
};

static uint64_t count_left(const unsigned char *bytes)
{
        uint64_t n = 0;

        for (uint64_t at = 0; at < CHUNK; at += PAGE) {
                if (bytes[at] == 0 && memcmp(bytes + at, bytes + at + 1, PAGE - 1) == 0)
                        continue;
                for (uint64_t i = at; i < at + PAGE; i++)
                        n += bytes[i] != 0;
        }
        return n;
}

/* Of the first few chunks that are not zero: where they lie, and which byte they hold, which says whose. */
static void tell_left(const char *kind, const char *address, const unsigned char *bytes,
                      uint64_t n_left)
{
        static _Atomic unsigned n_told;
        uint64_t at = 0;

        if (atomic_fetch_add(&n_told, 1) >= N_TOLD_MAX)
                return;
        while (bytes[at] == 0)
                at++;
        (void)fprintf(stderr,
                      "%s memory at %p: %" PRIu64 " bytes are not zero, the first is 0x%02x", kind,
                      (const void *)(address + at), n_left, bytes[at]);
        if (bytes[at] >= byte_of(0) && bytes[at] <= byte_of(N_PASSES))
                (void)fprintf(stderr, ": turn %d wrote it", bytes[at] - byte_of(0));
        (void)fputs("\n", stderr);
}

/* How many bytes of a chunk, which is at the address for its user, are not zero. */
static uint64_t look_at_chunk(const char *kind, const char *address, const unsigned char *bytes)
{
        uint64_t n_left = count_left(bytes);

        if (n_left)
                tell_left(kind, address, bytes, n_left);
        return n_left;
}

static void look_at_device(struct looker *looker, const char *piece)
{
        for (uint64_t at = looker->number * CHUNK; at < device.n_bytes; at += N_LOOKERS * CHUNK) {
                void *staged;

                ck_assert_int_eq(gpu_restart(looker->gpu), 0);
                ck_assert_int_eq(gpu_stage(looker->gpu, CHUNK, &staged), 0);
                memset(staged, 0xFF, CHUNK);
                ck_assert_int_eq(gpu_copy_to_host(looker->gpu, staged, piece + at, CHUNK), 0);
                ck_assert_int_eq(gpu_synchronize(looker->gpu), 0);
                looker->found.n_device += CHUNK;
                looker->found.n_device_left += look_at_chunk("device", piece + at, staged);
        }
}

static void look_at_pinned(struct looker *looker, const char *piece)
{
        for (uint64_t at = looker->number * CHUNK; at < pinned.n_bytes; at += N_LOOKERS * CHUNK) {
                looker->found.n_pinned += CHUNK;
                looker->found.n_pinned_left += look_at_chunk("pinned", piece + at,
                                                             (const unsigned char *)piece + at);
        }
}

static void *look(void *argument)
{
        struct looker *looker = argument;

        ck_assert_int_eq(gpu_use(looker->gpu), 0);
        for (unsigned i = 0; i < device.n_pieces; i++)
                look_at_device(looker, looker->user->device[i]);
        for (unsigned i = 0; i < pinned.n_pieces; i++)
                look_at_pinned(looker, looker->user->pinned[i]);
        return NULL;
}

static struct found look_at_all(const struct user *user)
{
        struct looker lookers[N_LOOKERS];
        struct found all = {0};

        for (unsigned i = 0; i < N_LOOKERS; i++) {
                lookers[i] = (struct looker){.user = user, .number = i};
                ck_assert_int_eq(gpu_new(0, &lookers[i].gpu), 0);
        }
        for (unsigned i = 0; i < N_LOOKERS; i++)
                ck_assert_int_eq(pthread_create(&lookers[i].thread, NULL, look, &lookers[i]), 0);
        for (unsigned i = 0; i < N_LOOKERS; i++) {
                ck_assert_int_eq(pthread_join(lookers[i].thread, NULL), 0);
                all.n_device += lookers[i].found.n_device;
                all.n_device_left += lookers[i].found.n_device_left;
                all.n_pinned += lookers[i].found.n_pinned;
                all.n_pinned_left += lookers[i].found.n_pinned_left;
                gpu_free(lookers[i].gpu);
        }
        ck_assert_int_eq(gpu_use(user->gpu), 0);
        return all;
}

/* How its turn ends. */
enum ending { FREES_AND_LEAVES, IS_KILLED, JUST_LEAVES, N_ENDINGS };

static void be_user(int fd, unsigned turn, enum ending ending)
{
        struct user user;
        struct found found;

        open_as(&user, FIRST_USER + turn);
        take_all(&user);
        found = look_at_all(&user);
        write_all(&user, byte_of(turn));
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

/* A process of its own. */
static struct found take_turn(unsigned turn, enum ending ending)
{
        struct found found;
        int fds[2];
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                (void)close(fds[0]);
                be_user(fds[1], turn, ending);
        }
        (void)close(fds[1]);
        ck_assert_int_eq(recv(fds[0], &found, sizeof(found), 0), sizeof(found));
        (void)close(fds[0]);
        if (ending == IS_KILLED)
                ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        return found;
}

static void tell(const struct found *all)
{
        (void)printf("# figure: leftovers, %u passes over %.2f GiB of device memory that another "
                     "user had filled: %.2f GiB looked at, %" PRIu64
                     " bytes not zero; of pinned memory %.2f GiB, %" PRIu64 "\n",
                     N_PASSES, (double)(device.n_bytes * device.n_pieces) / (double)GIB,
                     (double)all->n_device / (double)GIB, all->n_device_left,
                     (double)all->n_pinned / (double)GIB, all->n_pinned_left);
        (void)fflush(stdout);
}

TEST(in_three_passes_over_a_whole_device_no_byte_of_another_user_is_left, NEEDS_ROOT)
{
        struct found all = {0};

        for (unsigned i = 0; i <= N_PASSES; i++) {
                struct found found = take_turn(i, (enum ending)(i % N_ENDINGS));

                ck_assert_uint_eq(found.n_device, device.n_bytes * device.n_pieces);
                ck_assert_uint_eq(found.n_pinned, pinned.n_bytes * pinned.n_pieces);
                if (i == 0)
                        continue;
                all.n_device += found.n_device;
                all.n_device_left += found.n_device_left;
                all.n_pinned += found.n_pinned;
                all.n_pinned_left += found.n_pinned_left;
        }
        tell(&all);
        ck_assert_uint_eq(all.n_device_left, 0);
        ck_assert_uint_eq(all.n_pinned_left, 0);
}

TESTS_MAIN("leftovers", .limit_s = 240, .start = start, .stop = stop)
