/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/holder.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/cuda.h"
#include "driver/legacy.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/live/gate.h"
#include "tests/suite.h"

#define ALLOCATIONS_MAX 128
#define SAMPLE_BYTES    4096
#define BURST_PIECES    100

enum what {
        ALLOC,
        ALLOC_PINNED,
        FLUSH,
        CHECK,
        FREE_ALL,
        HOLD_UP,
        GO,
        KEEP,
        BURST,
        HITS,
        CALLS,
        END,
        EXIT
};

struct order {
        enum what what;
        uint32_t wait_ms;
        uint64_t n_bytes;
        uint32_t n_times;
};

struct own {
        struct gpumem_client *client;
        struct gpu *gpu;
        struct cuda cuda;
        struct gate gate;
        struct {
                void *pointer;
                uint64_t n_bytes;
                unsigned char byte;
        } all[ALLOCATIONS_MAX];
        unsigned n;
        CUstream streams[HOLDER_STREAMS];
        void *kept[HOLDER_STREAMS];
        unsigned n_streams;
        void *pieces[BURST_PIECES];
};

static atomic_uint n_driver_calls;

/* The linker leads the library's calls here. */
#define COUNTED(name, parameters, ...)                \
        int __real_##name parameters;                 \
        int __wrap_##name parameters;                 \
        int __wrap_##name parameters                  \
        {                                             \
                atomic_fetch_add(&n_driver_calls, 1); \
                return __real_##name(__VA_ARGS__);    \
        }

COUNTED(legacy_open,
        (const struct cuda *cuda, const struct legacy_handle *handle, uint64_t n_bytes,
         uint64_t *ret_address),
        cuda, handle, n_bytes, ret_address)
COUNTED(legacy_close_in,
        (const struct cuda *cuda, uint64_t context, uint64_t address, unsigned *n_times), cuda,
        context, address, n_times)
COUNTED(vmm_import, (const struct cuda *cuda, int fd, uint64_t *ret_handle), cuda, fd, ret_handle)
COUNTED(vmm_map,
        (const struct cuda *cuda, int ordinal, uint64_t address, uint64_t n_bytes, uint64_t handle),
        cuda, ordinal, address, n_bytes, handle)
COUNTED(vmm_map_host,
        (const struct cuda *cuda, int node, uint64_t address, uint64_t n_bytes, uint64_t handle),
        cuda, node, address, n_bytes, handle)
COUNTED(vmm_unmap, (const struct cuda *cuda, uint64_t address, uint64_t n_bytes), cuda, address,
        n_bytes)
COUNTED(host_register, (const struct cuda *cuda, void *bytes, uint64_t n_bytes), cuda, bytes,
        n_bytes)
COUNTED(host_unregister_in,
        (const struct cuda *cuda, uint64_t context, void *bytes, uint64_t n_bytes), cuda, context,
        bytes, n_bytes)

static void open_all(struct own *own, uid_t uid)
{
        char reason[CUDA_REASON_MAX];

        ck_assert_int_eq(gpu_new(0, &own->gpu), 0);
        ck_assert_int_eq(gpu_use(own->gpu), 0);
        ck_assert_int_eq(cuda_load(NULL, &own->cuda, reason), 0);
        ck_assert_int_eq(seteuid(uid), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &own->client), 0);
        ck_assert_int_eq(seteuid(getuid()), 0);
        gate_init(&own->gate, &own->cuda);
}

static int alloc(struct own *own, const struct order *order)
{
        bool pinned = order->what == ALLOC_PINNED;
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = pinned ? GPUMEM_PINNED : GPUMEM_DEVICE,
                                         .place = pinned ? GPUMEM_NEAREST : 0,
                                         .stream = gpu_stream(own->gpu),
                                         .n_bytes = order->n_bytes,
                                         .wait_ms = order->wait_ms};
        unsigned char byte = (unsigned char)(17 * own->n + 1);
        void *pointer;
        int r;

        ck_assert_uint_lt(own->n, ALLOCATIONS_MAX);
        r = gpumem_alloc(own->client, &request, &pointer);
        if (r)
                return r;
        if (pinned)
                memset(pointer, byte, order->n_bytes);
        else
                ck_assert_int_eq(gpu_fill(own->gpu, pointer, byte, order->n_bytes), 0);
        own->all[own->n].pointer = pointer;
        own->all[own->n].byte = byte;
        own->all[own->n++].n_bytes = order->n_bytes;
        return 0;
}

static void check_at(struct own *own, const char *from, unsigned char byte, uint64_t n_bytes)
{
        unsigned char wanted[SAMPLE_BYTES];
        void *staged;

        memset(wanted, byte, sizeof(wanted));
        ck_assert_int_eq(gpu_stage(own->gpu, n_bytes, &staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(own->gpu, staged, from, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(own->gpu), 0);
        ck_assert_mem_eq(staged, wanted, n_bytes);
}

static void check(struct own *own)
{
        for (unsigned i = 0; i < own->n; i++) {
                uint64_t n_bytes = own->all[i].n_bytes;
                uint64_t n = n_bytes < SAMPLE_BYTES ? n_bytes : SAMPLE_BYTES;

                ck_assert_int_eq(gpu_restart(own->gpu), 0);
                check_at(own, own->all[i].pointer, own->all[i].byte, n);
                check_at(own, (char *)own->all[i].pointer + n_bytes - n, own->all[i].byte, n);
        }
}

static void free_all(struct own *own)
{
        while (own->n)
                ck_assert_int_eq(
                        gpumem_free(own->client, own->all[--own->n].pointer, gpu_stream(own->gpu)),
                        0);
}

static void *alloc_in(struct own *own, unsigned stream, uint64_t n_bytes)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = own->streams[stream],
                                         .n_bytes = n_bytes};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(own->client, &request, &pointer), 0);
        ck_assert_int_eq(CUDA_CALL(&own->cuda, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 1,
                                   n_bytes < SAMPLE_BYTES ? n_bytes : SAMPLE_BYTES,
                                   own->streams[stream]),
                         0);
        return pointer;
}

static void keep(struct own *own, unsigned n_streams)
{
        ck_assert_uint_le(n_streams, HOLDER_STREAMS);
        for (own->n_streams = 0; own->n_streams < n_streams; own->n_streams++) {
                ck_assert_int_eq(CUDA_CALL(&own->cuda, cuStreamCreate,
                                           &own->streams[own->n_streams], CU_STREAM_NON_BLOCKING),
                                 0);
                own->kept[own->n_streams] = alloc_in(own, own->n_streams, SAMPLE_BYTES);
        }
}

static void burst(struct own *own, uint64_t n_bytes)
{
        for (unsigned i = 0; i < BURST_PIECES; i++)
                own->pieces[i] = alloc_in(own, i % own->n_streams, n_bytes / BURST_PIECES);
        for (unsigned i = 0; i < BURST_PIECES; i++)
                ck_assert_int_eq(
                        gpumem_free(own->client, own->pieces[i], own->streams[i % own->n_streams]),
                        0);
}

static void end_kept(struct own *own)
{
        for (unsigned i = 0; i < own->n_streams; i++) {
                ck_assert_int_eq(gpumem_free(own->client, own->kept[i], own->streams[i]), 0);
                ck_assert_int_eq(CUDA_CALL(&own->cuda, cuStreamSynchronize, own->streams[i]), 0);
                ck_assert_int_eq(CUDA_CALL(&own->cuda, cuStreamDestroy, own->streams[i]), 0);
        }
}

static struct gpumem_stats stats_of(struct own *own)
{
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};

        ck_assert_int_eq(gpumem_get_stats(own->client, GPUMEM_DEVICE, 0, &stats), 0);
        return stats;
}

static uint64_t obey(struct own *own, const struct order *order)
{
        switch (order->what) {
        case ALLOC:
        case ALLOC_PINNED:
                return (uint64_t)alloc(own, order);
        case CHECK:
                check(own);
                return 0;
        case FREE_ALL:
                free_all(own);
                return 0;
        case FLUSH:
                return (uint64_t)gpumem_flush(own->client, NULL);
        case HOLD_UP:
                gate_hold(&own->gate, gpu_stream(own->gpu));
                return 0;
        case GO:
                gate_open(&own->gate);
                return 0;
        case KEEP:
                keep(own, order->n_times);
                return stats_of(own).n_reserved_bytes;
        case BURST:
                for (uint32_t i = 0; i < order->n_times; i++)
                        burst(own, order->n_bytes);
                return 0;
        case CALLS:
                return atomic_load(&n_driver_calls);
        case HITS:
                return stats_of(own).n_hits;
        case END:
                free_all(own);
                end_kept(own);
                gate_deinit(&own->gate);
                gpumem_disconnect(own->client);
                gpu_free(own->gpu);
                return 0;
        case EXIT:
                return 0;
        }
        return 0;
}

static void serve(int fd, uid_t uid)
{
        struct own own = {.n = 0};
        struct order order = {.what = CHECK};
        uint64_t answer = 0;

        open_all(&own, uid);
        while (order.what != END && order.what != EXIT) {
                ck_assert_int_eq(send(fd, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
                if (recv(fd, &order, sizeof(order), 0) != sizeof(order))
                        _exit(EXIT_FAILURE);
                answer = obey(&own, &order);
        }
        exit(EXIT_SUCCESS);
}

static uint64_t answer_of(struct holder *holder)
{
        uint64_t answer;

        ck_assert_int_eq(recv(holder->fd, &answer, sizeof(answer), 0), sizeof(answer));
        return answer;
}

static void say(struct holder *holder, struct order order)
{
        ck_assert_int_eq(send(holder->fd, &order, sizeof(order), MSG_NOSIGNAL), sizeof(order));
}

static uint64_t tell(struct holder *holder, enum what what)
{
        say(holder, (struct order){.what = what});
        return answer_of(holder);
}

void holder_start_as(struct holder *holder, uid_t uid)
{
        int fds[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
        holder->pid = fork();
        ck_assert_int_ge(holder->pid, 0);
        if (holder->pid == 0) {
                (void)close(fds[0]);
                serve(fds[1], uid);
        }
        (void)close(fds[1]);
        holder->fd = fds[0];
        (void)answer_of(holder);
}

void holder_start(struct holder *holder)
{
        holder_start_as(holder, geteuid());
}

int holder_alloc(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms)
{
        say(holder, (struct order){.what = ALLOC, .wait_ms = wait_ms, .n_bytes = n_bytes});
        return (int)answer_of(holder);
}

int holder_alloc_pinned(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms)
{
        say(holder, (struct order){.what = ALLOC_PINNED, .wait_ms = wait_ms, .n_bytes = n_bytes});
        return (int)answer_of(holder);
}

void holder_flush(struct holder *holder)
{
        ck_assert_uint_eq(tell(holder, FLUSH), 0);
}

void holder_check(struct holder *holder)
{
        (void)tell(holder, CHECK);
}

void holder_free_all(struct holder *holder)
{
        (void)tell(holder, FREE_ALL);
}

void holder_hold_up(struct holder *holder)
{
        ck_assert_uint_eq(tell(holder, HOLD_UP), 0);
}

void holder_go(struct holder *holder)
{
        (void)tell(holder, GO);
}

uint64_t holder_keep(struct holder *holder, unsigned n_streams)
{
        say(holder, (struct order){.what = KEEP, .n_times = n_streams});
        return answer_of(holder);
}

void holder_burst(struct holder *holder, uint64_t n_bytes, unsigned n_times)
{
        say(holder, (struct order){.what = BURST, .n_times = n_times, .n_bytes = n_bytes});
        (void)answer_of(holder);
}

uint64_t holder_hits(struct holder *holder)
{
        return tell(holder, HITS);
}

uint64_t holder_driver_calls(struct holder *holder)
{
        return tell(holder, CALLS);
}

void holder_stop(struct holder *holder)
{
        int status;

        ck_assert_int_eq(kill(holder->pid, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(holder->pid, &status, WUNTRACED), holder->pid);
        ck_assert(WIFSTOPPED(status));
}

void holder_continue(struct holder *holder)
{
        ck_assert_int_eq(kill(holder->pid, SIGCONT), 0);
}

static void await_end(struct holder *holder)
{
        int status;

        ck_assert_int_eq(waitpid(holder->pid, &status, 0), holder->pid);
        (void)close(holder->fd);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

void holder_end(struct holder *holder)
{
        say(holder, (struct order){.what = END});
        await_end(holder);
}

void holder_exit(struct holder *holder)
{
        say(holder, (struct order){.what = EXIT});
        await_end(holder);
}

void holder_kill(struct holder *holder)
{
        int status;

        ck_assert_int_eq(kill(holder->pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(holder->pid, &status, 0), holder->pid);
        (void)close(holder->fd);
}
