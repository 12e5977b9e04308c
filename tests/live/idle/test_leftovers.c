/* SPDX-License-Identifier: Apache-2.0 */
/* No user finds another user's bytes in device or pinned memory, however the other one ended. The tests
 * read all memory of the device, on a GPU as much as it has. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "tests/demo/gpu.h"
#include "tests/live/support/kernel.h"
#include "tests/live/support/world.h"

#define N_PASSES     3
#define FIRST_USER   65530
#define FIRST_BYTE   0xA1 /* what the first user writes; later ones write the next bytes */
#define N_PIECES_MAX 256
#define N_LOOKERS    8
#define CHUNK        (2 * MIB)
#define PAGE         4096
#define LONG_MS      20000
#define N_TOLD_MAX   16

/* With a sanitizer this takes many times as long. */
#if defined(__SANITIZE_THREAD__)
#define N_TURNS 3
#else
#define N_TURNS 12
#endif

/* Of a GPU; the rest is for contexts and other programs. */
#define MOST_OF(whole) ((whole) / 16 * 15)

/* How much each user takes of each kind. */
struct amount {
        uint64_t n_bytes; /* of one allocation */
        unsigned n_pieces;
};
static struct amount device, pinned;

static void start_with(const char *device_bytes, const char *pinned_bytes)
{
        const char *const options[] = {"--pinned-bytes", pinned_bytes,
                                       device_bytes ? "--device-bytes" : NULL, device_bytes, NULL};

        daemon_start(&gpumemd, "devices=1,bytes=256MiB,reclaim_ms=20", options);
        daemon_admit_all(&gpumemd);
}

/* A whole emulated device, on which contexts take no memory. */
static void start_small(void)
{
        start_with("256MiB", "64MiB");
        device = (struct amount){32 * MIB, 8};
        pinned = (struct amount){16 * MIB, 4};
}

static void start(void)
{
        if (!kernel_is_real()) {
                start_small();
                return;
        }
        start_with(NULL, "4GiB");
        device = (struct amount){GIB, (unsigned)(MOST_OF(daemon_device_bytes()) / GIB)};
        pinned = (struct amount){GIB, 4};
        ck_assert_uint_gt(device.n_pieces, 0);
        ck_assert_uint_le(device.n_pieces, N_PIECES_MAX);
}

static const struct test_case small = {"small", .limit_s = 120, .start = start_small,
                                       .stop = gpumemd_stop_uncharged};

struct user {
        unsigned char byte; /* the byte it writes */
        struct gpumem_client *client;
        struct gpu *gpu;
        char *device[N_PIECES_MAX], *pinned[N_PIECES_MAX];
};

static void open_as(struct user *user, uid_t uid)
{
        user->gpu = use_gpu();
        ck_assert_int_eq(seteuid(uid), 0);
        user->client = connect_client();
        ck_assert_int_eq(seteuid(getuid()), 0);
}

static void take_all(struct user *user, enum gpumem_kind kind, struct amount amount, char **pieces)
{
        struct gpumem_request request = request_in(gpu_stream(user->gpu), kind, amount.n_bytes);

        request.wait_ms = LONG_MS;
        for (unsigned i = 0; i < amount.n_pieces; i++)
                ck_assert_int_eq(gpumem_alloc(user->client, &request, (void **)&pieces[i]), 0);
}

static void write_all(const struct user *user)
{
        for (unsigned i = 0; i < device.n_pieces; i++)
                ck_assert_int_eq(gpu_fill(user->gpu, user->device[i], user->byte, device.n_bytes),
                                 0);
        for (unsigned i = 0; i < pinned.n_pieces; i++)
                memset(user->pinned[i], user->byte, pinned.n_bytes);
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

/* Bytes found before the user has written; some of them are its own, from an earlier turn. */
struct found {
        uint64_t n_device, n_pinned; /* bytes read */
        uint64_t n_own, n_foreign;   /* bytes that are not zero */
};

static void add(struct found *all, const struct found *found)
{
        all->n_device += found->n_device;
        all->n_pinned += found->n_pinned;
        all->n_own += found->n_own;
        all->n_foreign += found->n_foreign;
}

/* One of several threads that share the chunks, with a stream of its own. */
struct looker {
        const struct user *user;
        unsigned number;
        struct gpu *gpu;
        struct found found;
        pthread_t thread;
};

/* Of the first few chunks. */
static void tell_foreign(const char *kind, const char *address, unsigned char byte)
{
        static _Atomic unsigned n_told;

        if (atomic_fetch_add(&n_told, 1) < N_TOLD_MAX)
                (void)fprintf(stderr, "%s memory at %p is 0x%02x, of user %d\n", kind,
                              (const void *)address, byte, byte - FIRST_BYTE);
}

/* A chunk, at the same address for its user. */
static void look_at_chunk(struct looker *looker, const char *kind, const char *address,
                          const unsigned char *bytes)
{
        unsigned char own = looker->user->byte;

        for (uint64_t at = 0; at < CHUNK; at += PAGE) {
                if (bytes[at] == 0 && memcmp(bytes + at, bytes + at + 1, PAGE - 1) == 0)
                        continue;
                for (uint64_t i = at; i < at + PAGE; i++) {
                        looker->found.n_own += bytes[i] == own;
                        if (bytes[i] == 0 || bytes[i] == own)
                                continue;
                        if (looker->found.n_foreign++ == 0)
                                tell_foreign(kind, address + i, bytes[i]);
                }
        }
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
                look_at_chunk(looker, "device", piece + at, staged);
        }
}

static void look_at_pinned(struct looker *looker, const char *piece)
{
        for (uint64_t at = looker->number * CHUNK; at < pinned.n_bytes; at += N_LOOKERS * CHUNK) {
                looker->found.n_pinned += CHUNK;
                look_at_chunk(looker, "pinned", piece + at, (const unsigned char *)piece + at);
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
                add(&all, &lookers[i].found);
                gpu_free(lookers[i].gpu);
        }
        ck_assert_int_eq(gpu_use(user->gpu), 0);
        return all;
}

/* How its turn ends. */
enum ending { FREES_AND_LEAVES, IS_KILLED, JUST_LEAVES, N_ENDINGS };

static void be_user(int fd, uid_t uid, unsigned char byte, enum ending ending)
{
        struct user user = {.byte = byte};
        struct found found;

        open_as(&user, uid);
        take_all(&user, GPUMEM_DEVICE, device, user.device);
        take_all(&user, GPUMEM_PINNED, pinned, user.pinned);
        found = look_at_all(&user);
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

/* A process of its own, which reads all memory and adds its counts. */
static void take_turn(uid_t uid, unsigned user, enum ending ending, struct found *all)
{
        struct found found;
        int fds[2];
        pid_t pid;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                (void)close(fds[0]);
                be_user(fds[1], uid, (unsigned char)(FIRST_BYTE + user), ending);
        }
        (void)close(fds[1]);
        ck_assert_int_eq(recv(fds[0], &found, sizeof(found), 0), sizeof(found));
        (void)close(fds[0]);
        if (ending == IS_KILLED)
                ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        ck_assert_uint_eq(found.n_device, device.n_bytes * device.n_pieces);
        ck_assert_uint_eq(found.n_pinned, pinned.n_bytes * pinned.n_pieces);
        add(all, &found);
}

static void tell(const char *what, const struct found *all)
{
        (void)printf("# figure: leftovers, %s: looked at %.2f GiB of device memory that another "
                     "user had filled and %.2f GiB of pinned: %" PRIu64 " bytes another's, %" PRIu64
                     " MiB the user's own of an earlier turn\n",
                     what, (double)all->n_device / (double)GIB, (double)all->n_pinned / (double)GIB,
                     all->n_foreign, all->n_own / MIB);
        (void)fflush(stdout);
}

/* Each turn has another user. Memory that is cached for a user itself may keep its bytes. The first user
 * finds a new device; each later one finds the memory of those before. */
TEST(in_three_passes_over_a_whole_device_no_byte_of_another_user_is_left, NEEDS_ROOT)
{
        struct found first = {0}, all = {0};

        for (unsigned i = 0; i <= N_PASSES; i++)
                take_turn(FIRST_USER + i, i, (enum ending)(i % N_ENDINGS), i ? &all : &first);
        tell("three passes over a device", &all);
        ck_assert_uint_eq(all.n_foreign + all.n_own, 0);
}

TEST(in_twelve_turns_of_two_users_neither_finds_a_byte_of_the_other, .in = &small, NEEDS_ROOT)
{
        struct found all = {0};

        for (unsigned i = 0; i < N_TURNS; i++)
                take_turn(FIRST_USER + i % 2, i % 2, (enum ending)(i % N_ENDINGS), &all);
        tell("turns of two users", &all);
        ck_assert_uint_eq(all.n_foreign, 0);
        ck_assert_uint_gt(all.n_device + all.n_pinned, 2 * all.n_own);
}

/* Only root can become another user. */
TEST(new_memory_is_zero, .in = &small)
{
        struct found found = {0};

        take_turn(geteuid(), 0, FREES_AND_LEAVES, &found);
        ck_assert_uint_eq(found.n_foreign + found.n_own, 0);
}

TESTS_MAIN("leftovers", .limit_s = 240, .start = start, .stop = gpumemd_stop_uncharged)
