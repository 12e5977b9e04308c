/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/holder.h"

#include <stdatomic.h>
#include <sys/socket.h>

#include "driver/legacy.h"
#include "tests/live/support/gate.h"
#include "tests/live/support/world.h"

#define ALLOCATIONS_MAX 128
#define SAMPLE_BYTES    4096
#define BURST_PIECES    100

/* A command to the other process, which runs the same program. Its answer is sent back. */
struct order {
        uint64_t (*deed)(const struct order *order);
        enum gpumem_kind kind;
        uint32_t wait_ms;
        uint64_t n_bytes;
        uint32_t n_times;
};

static atomic_uint n_driver_calls;

/* The linker redirects the library's calls to these. */
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

/* State of the process itself. */
static struct gpumem_client *client;
static struct gpu *gpu;
static struct cuda cuda;
static struct gate gate;
static struct {
        void *pointer;
        uint64_t n_bytes;
        unsigned char byte;
} all[ALLOCATIONS_MAX];
static unsigned n_all;
static CUstream streams[HOLDER_STREAMS];
static void *kept[HOLDER_STREAMS];
static unsigned n_streams;
static bool is_over;

static uint64_t alloc(const struct order *order)
{
        struct gpumem_request request = request_in(gpu_stream(gpu), order->kind, order->n_bytes);
        unsigned char byte = (unsigned char)(17 * n_all + 1);
        void *pointer;
        int r;

        ck_assert_uint_lt(n_all, ALLOCATIONS_MAX);
        request.wait_ms = order->wait_ms;
        r = gpumem_alloc(client, &request, &pointer);
        if (r)
                return (uint64_t)r;
        if (order->kind == GPUMEM_PINNED)
                memset(pointer, byte, order->n_bytes);
        else
                ck_assert_int_eq(gpu_fill(gpu, pointer, byte, order->n_bytes), 0);
        all[n_all].pointer = pointer;
        all[n_all].byte = byte;
        all[n_all++].n_bytes = order->n_bytes;
        return 0;
}

static void check_at(const char *from, unsigned char byte, uint64_t n_bytes)
{
        unsigned char wanted[SAMPLE_BYTES];
        void *staged;

        memset(wanted, byte, sizeof(wanted));
        ck_assert_int_eq(gpu_stage(gpu, n_bytes, &staged), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, staged, from, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        ck_assert_mem_eq(staged, wanted, n_bytes);
}

static uint64_t sample_of(uint64_t n_bytes)
{
        return n_bytes < SAMPLE_BYTES ? n_bytes : SAMPLE_BYTES;
}

static uint64_t check(const struct order *order)
{
        (void)order;
        for (unsigned i = 0; i < n_all; i++) {
                uint64_t n = sample_of(all[i].n_bytes);

                ck_assert_int_eq(gpu_restart(gpu), 0);
                check_at(all[i].pointer, all[i].byte, n);
                check_at((char *)all[i].pointer + all[i].n_bytes - n, all[i].byte, n);
        }
        return 0;
}

static uint64_t free_all(const struct order *order)
{
        (void)order;
        while (n_all)
                ck_assert_int_eq(gpumem_free(client, all[--n_all].pointer, gpu_stream(gpu)), 0);
        return 0;
}

static uint64_t reserve(const struct order *order)
{
        return (uint64_t)gpumem_reserve(client, 0, order->n_bytes, order->wait_ms);
}

static void on_event(const struct gpumem_event *event, void *argument)
{
        unsigned *n = argument;

        *n += event->kind == GPUMEM_EVENT_PRESSURE && !event->n_bytes &&
              event->memory == GPUMEM_DEVICE;
}

static unsigned n_told;
static uint64_t n_pressures;

static uint64_t hear_pressure(const struct order *order)
{
        (void)order;
        n_pressures = gpumem_pressure(client);
        ck_assert_int_eq(gpumem_set_event_callback(client, on_event, &n_told), 0);
        return 0;
}

/* The callback runs at the end of a call: here, of the first free. */
static uint64_t answer_pressure(const struct order *order)
{
        AWAIT(gpumem_pressure(client) > n_pressures);
        (void)free_all(order);
        ck_assert_int_eq(gpumem_set_event_callback(client, NULL, NULL), 0);
        return n_told;
}

static uint64_t flush(const struct order *order)
{
        (void)order;
        return (uint64_t)gpumem_flush(client, NULL);
}

static uint64_t hold_up(const struct order *order)
{
        (void)order;
        gate_hold(&gate, gpu_stream(gpu));
        return 0;
}

static uint64_t go(const struct order *order)
{
        (void)order;
        gate_open(&gate);
        return 0;
}

static void *alloc_in(CUstream stream, uint64_t n_bytes)
{
        struct gpumem_request request = request_in(stream, GPUMEM_DEVICE, n_bytes);
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 1, sample_of(n_bytes), stream);
        return pointer;
}

static uint64_t keep(const struct order *order)
{
        ck_assert_uint_le(order->n_times, HOLDER_STREAMS);
        for (n_streams = 0; n_streams < order->n_times; n_streams++) {
                DRIVER(cuStreamCreate, &streams[n_streams], CU_STREAM_NON_BLOCKING);
                kept[n_streams] = alloc_in(streams[n_streams], SAMPLE_BYTES);
        }
        return nearest_stats(client, GPUMEM_DEVICE).n_reserved_bytes;
}

static uint64_t burst(const struct order *order)
{
        void *pieces[BURST_PIECES];

        for (uint32_t n = 0; n < order->n_times; n++) {
                for (unsigned i = 0; i < BURST_PIECES; i++)
                        pieces[i] = alloc_in(streams[i % n_streams], order->n_bytes / BURST_PIECES);
                for (unsigned i = 0; i < BURST_PIECES; i++)
                        ck_assert_int_eq(gpumem_free(client, pieces[i], streams[i % n_streams]), 0);
        }
        return 0;
}

static uint64_t hits(const struct order *order)
{
        (void)order;
        return nearest_stats(client, GPUMEM_DEVICE).n_hits;
}

static uint64_t calls(const struct order *order)
{
        (void)order;
        return atomic_load(&n_driver_calls);
}

static uint64_t leave(const struct order *order)
{
        (void)order;
        is_over = true;
        return 0;
}

static uint64_t end(const struct order *order)
{
        (void)free_all(order);
        for (unsigned i = 0; i < n_streams; i++) {
                ck_assert_int_eq(gpumem_free(client, kept[i], streams[i]), 0);
                DRIVER(cuStreamSynchronize, streams[i]);
                DRIVER(cuStreamDestroy, streams[i]);
        }
        gate_deinit(&gate);
        gpumem_disconnect(client);
        gpu_free(gpu);
        return leave(order);
}

static void serve(int fd, uid_t uid)
{
        struct order order;
        uint64_t answer = 0;

        gpu = use_gpu();
        load_driver(&cuda);
        ck_assert_int_eq(seteuid(uid), 0);
        client = connect_client();
        ck_assert_int_eq(seteuid(getuid()), 0);
        gate_init(&gate, &cuda);
        while (!is_over) {
                ck_assert_int_eq(send(fd, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
                if (recv(fd, &order, sizeof(order), 0) != sizeof(order))
                        _exit(EXIT_FAILURE);
                answer = order.deed(&order);
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

static uint64_t tell(struct holder *holder, struct order order)
{
        say(holder, order);
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
        return (int)tell(holder, (struct order){alloc, GPUMEM_DEVICE, wait_ms, n_bytes, 1});
}

int holder_alloc_pinned(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms)
{
        return (int)tell(holder, (struct order){alloc, GPUMEM_PINNED, wait_ms, n_bytes, 1});
}

void holder_begin_answer(struct holder *holder)
{
        (void)tell(holder, (struct order){.deed = hear_pressure});
        say(holder, (struct order){.deed = answer_pressure});
}

unsigned holder_end_answer(struct holder *holder)
{
        return (unsigned)answer_of(holder);
}

void holder_begin_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms)
{
        say(holder, (struct order){reserve, GPUMEM_DEVICE, wait_ms, n_bytes, 1});
}

int holder_end_reserve(struct holder *holder)
{
        return (int)answer_of(holder);
}

int holder_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms)
{
        holder_begin_reserve(holder, n_bytes, wait_ms);
        return holder_end_reserve(holder);
}

void holder_flush(struct holder *holder)
{
        ck_assert_uint_eq(tell(holder, (struct order){.deed = flush}), 0);
}

void holder_check(struct holder *holder)
{
        (void)tell(holder, (struct order){.deed = check});
}

void holder_free_all(struct holder *holder)
{
        (void)tell(holder, (struct order){.deed = free_all});
}

void holder_hold_up(struct holder *holder)
{
        (void)tell(holder, (struct order){.deed = hold_up});
}

void holder_go(struct holder *holder)
{
        (void)tell(holder, (struct order){.deed = go});
}

uint64_t holder_keep(struct holder *holder, unsigned n)
{
        return tell(holder, (struct order){.deed = keep, .n_times = n});
}

void holder_burst(struct holder *holder, uint64_t n_bytes, unsigned n_times)
{
        (void)tell(holder, (struct order){.deed = burst, .n_bytes = n_bytes, .n_times = n_times});
}

uint64_t holder_hits(struct holder *holder)
{
        return tell(holder, (struct order){.deed = hits});
}

uint64_t holder_driver_calls(struct holder *holder)
{
        return tell(holder, (struct order){.deed = calls});
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

void holder_end(struct holder *holder)
{
        say(holder, (struct order){.deed = end});
        (void)close(holder->fd);
        child_await(holder->pid, 0);
}

void holder_exit(struct holder *holder)
{
        say(holder, (struct order){.deed = leave});
        (void)close(holder->fd);
        child_await(holder->pid, 0);
}

void holder_kill(struct holder *holder)
{
        child_kill(holder->pid);
        (void)close(holder->fd);
}
