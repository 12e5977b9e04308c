/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are killed while kernels write to their memory: other processes get all of it, and no
 * kernel writes there any more. This process has no driver, so that it can start others at any time. */
#include <sys/socket.h>

#include "tests/live/support/kernel.h"
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/solo.h"

#define N_VICTIMS 8

/* 200 kills; a sanitizer makes the same take many times as long. */
#if defined(__SANITIZE_THREAD__)
#define N_ROUNDS 2
#elif defined(__SANITIZE_ADDRESS__)
#define N_ROUNDS 5
#else
#define N_ROUNDS 25
#endif

/* Of 256 MiB: the victims have 160 MiB together, and the survivor wants 192. */
#define VICTIM_BYTES (20 * MIB)
#define PIECE        (16 * MIB)
#define N_PIECES     12

/* Longer than a round takes, and not for ever should one live on. */
#define N_SPINS 20
#define LONG_MS 60000
#define BYTE    0xDD

static struct holder survivor;

struct victim {
        pid_t pid;
        int fd;
};

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=288MiB,reclaim_ms=20",
                     OPTIONS("--device-bytes", "256MiB"));
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        holder_start(&survivor);
}

static void stop(void)
{
        holder_end(&survivor);
        gpumemd_stop_uncharged();
}

/* Every other one has freed what the kernels write to: its end is in the order of its stream. */
static void be_victim(int fd, unsigned number)
{
        char reason[CUDA_REASON_MAX], ready = 1;
        struct gpumem_request request;
        struct kernel kernel;
        struct cuda cuda;
        void *pointer;

        solo_open(getuid());
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        kernel_init(&kernel, &cuda);
        request = request_of(GPUMEM_DEVICE, VICTIM_BYTES);
        request.wait_ms = LONG_MS;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        for (unsigned i = 0; i < N_SPINS; i++)
                kernel_spin(&kernel, gpu_stream(gpu), pointer, VICTIM_BYTES, BYTE);
        if (number % 2)
                must_free(pointer);
        ck_assert_int_eq(send(fd, &ready, 1, MSG_NOSIGNAL), 1);
        for (;;)
                (void)pause();
}

static struct victim victim_start(unsigned number)
{
        struct victim victim;
        int fds[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        victim.pid = fork();
        ck_assert_int_ge(victim.pid, 0);
        if (victim.pid == 0) {
                (void)close(fds[0]);
                be_victim(fds[1], number);
        }
        (void)close(fds[1]);
        victim.fd = fds[0];
        return victim;
}

/* Its memory may be another's before its pid is. */
static void reap(const struct victim *victim)
{
        int status;

        ck_assert_int_eq(waitpid(victim->pid, &status, 0), victim->pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        (void)close(victim->fd);
}

static void round_of_kills(void)
{
        struct victim victims[N_VICTIMS];
        char ready;

        for (unsigned i = 0; i < N_VICTIMS; i++)
                victims[i] = victim_start(i);
        for (unsigned i = 0; i < N_VICTIMS; i++)
                ck_assert_int_eq(recv(victims[i].fd, &ready, 1, 0), 1);
        for (unsigned i = 0; i < N_VICTIMS; i++)
                ck_assert_int_eq(kill(victims[i].pid, SIGKILL), 0);
        for (unsigned i = 0; i < N_PIECES; i++)
                ck_assert_int_eq(holder_alloc(&survivor, PIECE, LONG_MS), 0);
        holder_check(&survivor);
        for (unsigned i = 0; i < N_VICTIMS; i++)
                reap(&victims[i]);
        holder_check(&survivor);
        holder_free_all(&survivor);
}

TEST(after_each_of_200_kills_with_kernels_running_no_byte_is_wrong)
{
        for (unsigned i = 0; i < N_ROUNDS; i++)
                round_of_kills();
        (void)printf(
                "# figure: %d processes killed with %s running; %d pieces of %u MiB that others "
                "got meanwhile, each looked at twice: 0 wrong bytes\n",
                N_ROUNDS * N_VICTIMS, kernel_is_real() ? "kernels" : "fills", N_ROUNDS * N_PIECES,
                (unsigned)(PIECE / MIB));
        (void)fflush(stdout);
}

TESTS_MAIN("kills", .limit_s = 280, .start = start, .stop = stop)
