/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemd as a rival: its library, and its blocks without the library's memory management. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "bench/bare.h"
#include "bench/commands.h"
#include "bench/peers/player.h"
#include "bench/timing.h"
#include "driver/vmm.h"
#include "gpumem.h"

#define N_STEPS 4

static const char *explain(int r)
{
        static char text[ROW_NOTE_MAX];
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        if (r > 0 && !gpumem_last_refusal(NULL, &refusal) && refusal.text[0]) {
                (void)snprintf(text, sizeof(text), "%.*s", ROW_NOTE_MAX - 1, refusal.text);
                return text;
        }
        return gpumem_strerror(r);
}

static int connect_client(const struct player *player, struct gpumem_client **ret_client)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .socket_path = player->socket_path,
                                         .program = "gpumem-bench"};

        return gpumem_connect(&options, ret_client);
}

static int open_client(struct player *player)
{
        struct gpumem_client *client;
        int r = connect_client(player, &client);

        if (!r)
                player->self = client;
        return r;
}

/* Empty blocks go back, so that the next process can have them. */
static void close_client(struct player *player)
{
        gpumem_disconnect(player->self);
}

static int alloc(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = player->streams[stream],
                                         .n_bytes = n_bytes};

        return gpumem_alloc(player->self, &request, ret_pointer);
}

static int end(struct player *player, unsigned stream, void *pointer)
{
        return gpumem_free(player->self, pointer, player->streams[stream]);
}

const struct allocator allocator_gpumemd = {
        .n_steps = 1024,
        .n_thread_steps = 8192,
        .open = open_client,
        .close = close_client,
        .alloc = alloc,
        .free = end,
        .explain = explain,
};

/* The same, where the program has the handle of each stream. */
struct by_handle {
        struct gpumem_client *client;
        struct gpumem_stream *handles[PLAYER_STREAMS]; /* end with the client */
};

static int open_handles(struct player *player)
{
        static struct by_handle by_handle;
        int r = connect_client(player, &by_handle.client);

        for (unsigned i = 0; i < PLAYER_STREAMS && !r; i++)
                r = gpumem_stream_open(by_handle.client, player->streams[i], &by_handle.handles[i]);
        player->self = &by_handle;
        return r;
}

static void close_handles(struct player *player)
{
        const struct by_handle *by_handle = player->self;

        gpumem_disconnect(by_handle->client);
}

static int alloc_by_handle(struct player *player, unsigned stream, uint64_t n_bytes,
                           void **ret_pointer)
{
        const struct by_handle *by_handle = player->self;

        return gpumem_stream_alloc(by_handle->handles[stream], n_bytes, ret_pointer);
}

static int free_by_handle(struct player *player, unsigned stream, void *pointer)
{
        const struct by_handle *by_handle = player->self;

        return gpumem_stream_free(by_handle->handles[stream], pointer);
}

const struct allocator allocator_handle = {
        .n_steps = 1024,
        .n_thread_steps = 8192,
        .open = open_handles,
        .close = close_handles,
        .alloc = alloc_by_handle,
        .free = free_by_handle,
        .explain = explain,
};

struct blocks {
        struct player *player;
        struct bare bare;
        uint64_t address, n_bytes;
        uint64_t known; /* a lease that was returned and not unmapped */
};

static int map(struct blocks *blocks, int fd)
{
        const struct player *player = blocks->player;
        uint64_t handle;
        int r = vmm_import(&player->cuda, fd, &handle);

        if (r)
                return r;
        r = vmm_map(&player->cuda, player->device, blocks->address, blocks->n_bytes, handle);
        (void)vmm_release(&player->cuda, handle);
        return r;
}

static int lease_and_map(struct blocks *blocks, uint64_t *ret_lease)
{
        struct message_leased leased;
        int fd, r = bare_lease(&blocks->bare, blocks->n_bytes, &leased, &fd);

        if (r)
                return r;
        r = map(blocks, fd);
        (void)close(fd);
        *ret_lease = leased.lease;
        return r;
}

static int block_steps(void *state, unsigned n_steps)
{
        struct blocks *blocks = state;
        uint64_t lease;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = lease_and_map(blocks, &lease);
                if (!r)
                        r = vmm_unmap(&blocks->player->cuda, blocks->address, blocks->n_bytes);
                if (!r)
                        r = bare_return(&blocks->bare, lease);
        }
        return r;
}

static int return_mapped(struct blocks *blocks, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        blocks->known = lease;
        return link_send(blocks->bare.link, &frame, MESSAGE_RETURN);
}

static int known_once(struct blocks *blocks)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = blocks->n_bytes;
        request.lease.pool = blocks->bare.pool;
        request.lease.flags = PROTO_LEASE_KNOWN | PROTO_LEASE_ONLY_KNOWN;
        r = link_call(blocks->bare.link, &request, MESSAGE_LEASE, MESSAGE_KNOWN, &reply, &fds);
        if (!r)
                r = bare_unmapped(&blocks->bare, blocks->known);
        return r ? r : return_mapped(blocks, reply.known.lease);
}

static int known_steps(void *state, unsigned n_steps)
{
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++)
                r = known_once(state);
        return r;
}

static int measure_known(struct blocks *blocks, double *ret_ns)
{
        uint64_t lease;
        int r = lease_and_map(blocks, &lease);

        if (!r)
                r = return_mapped(blocks, lease);
        if (!r)
                r = time_repetition(known_steps, blocks, N_STEPS, ret_ns);
        if (!r)
                r = vmm_unmap(&blocks->player->cuda, blocks->address, blocks->n_bytes);
        return r ? r : bare_unmapped(&blocks->bare, blocks->known);
}

static int measure_blocks(struct blocks *blocks, double *ret_ns)
{
        return time_repetition(block_steps, blocks, N_STEPS, ret_ns);
}

static int measure(struct player *player, const char *argument,
                   int (*run)(struct blocks *blocks, double *ret_ns), double *ret_ns)
{
        struct blocks blocks = {
                .player = player, .bare = BARE_NULL, .n_bytes = strtoull(argument, NULL, 10)};
        const struct options options = {.socket_path = player->socket_path};
        int r = bare_init(&options, &blocks.bare);

        if (r)
                return r;
        r = vmm_reserve(&player->cuda, blocks.n_bytes, &blocks.address);
        if (!r) {
                r = run(&blocks, ret_ns);
                (void)vmm_unreserve(&player->cuda, blocks.address, blocks.n_bytes);
        }
        if (!r)
                r = bare_settle(&blocks.bare);
        bare_deinit(&blocks.bare);
        return r;
}

/* block BYTES: ns to lease a cached block, map it, unmap it and return it. */
static int order_block(struct player *player, const char *argument, double *ret_ns)
{
        return measure(player, argument, measure_blocks, ret_ns);
}

/* known BYTES: ns to lease a block that this client still maps, and to return it in the same way. */
static int order_known(struct player *player, const char *argument, double *ret_ns)
{
        return measure(player, argument, measure_known, ret_ns);
}

/* alloc BYTES: ns of an allocation, its free and a flush: what a program pays for a block that it does not keep. */
static int alloc_steps(void *state, unsigned n_steps)
{
        const struct blocks *blocks = state;
        struct player *player = blocks->player;
        void *pointer;
        int r = 0;

        for (unsigned i = 0; i < n_steps && !r; i++) {
                r = alloc(player, 0, blocks->n_bytes, &pointer);
                if (!r)
                        r = end(player, 0, pointer);
                if (!r)
                        r = gpumem_flush(player->self, NULL);
        }
        return r;
}

static int order_alloc(struct player *player, const char *argument, double *ret_ns)
{
        struct blocks blocks = {
                .player = player, .bare = BARE_NULL, .n_bytes = strtoull(argument, NULL, 10)};

        return time_repetition(alloc_steps, &blocks, N_STEPS, ret_ns);
}

static int free_all(struct player *player)
{
        return gpumem_free_all_blocks(player->self, GPUMEM_SCOPE_TENANT, NULL);
}

/* back: ns until what 64 allocations of 64 MiB have left is the driver's. */
static int order_back(struct player *player, const char *argument, double *ret_ns)
{
        void *pointers[ORDER_BACK_N];
        uint64_t start;
        int r = order_back_alloc(player, pointers);

        (void)argument;
        for (unsigned i = 0; i < ORDER_BACK_N && !r; i++)
                r = end(player, 0, pointers[i]);
        start = clock_now_ns();
        if (!r)
                r = free_all(player);
        if (!r)
                *ret_ns = (double)(clock_now_ns() - start);
        return r;
}

const struct order orders_gpumemd[] = {{"alloc", order_alloc},
                                       {"back", order_back},
                                       {"block", order_block},
                                       {"known", order_known},
                                       {"play", order_play},
                                       {"go", order_go},
                                       {NULL, NULL}};
