/* Orders that gpumemd alone answers, about blocks: without the library's memory. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/size.h"
#include "bench/bare.h"
#include "bench/commands.h"
#include "bench/peers/blocks.h"
#include "bench/peers/player.h"
#include "bench/timing.h"
#include "driver/vmm.h"

#define N_STEPS 4

/* Leases of the order lease. */
#define LEASE_BYTES (2 * MIB)
#define N_LEASES    2000
#define N_WARM      64

struct blocks {
        struct player *player;
        struct bare bare;
        uint64_t address, n_bytes;
        uint64_t known; /* lease that was given back and not unmapped */
};

int blocks_link(struct player *player, struct bare *ret_bare)
{
        const struct options options = {.socket_path = player->socket_path};

        return bare_init(&options, ret_bare);
}

static int map(struct blocks *blocks, int fd)
{
        const struct stage *stage = &blocks->player->stage;
        uint64_t handle;
        int r = vmm_import(&stage->cuda, fd, &handle);

        if (r)
                return r;
        r = vmm_map(&stage->cuda, stage->device, blocks->address, blocks->n_bytes, handle);
        (void)vmm_release(&stage->cuda, handle);
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
                        r = vmm_unmap(&blocks->player->stage.cuda, blocks->address,
                                      blocks->n_bytes);
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
                r = vmm_unmap(&blocks->player->stage.cuda, blocks->address, blocks->n_bytes);
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
        int r = blocks_link(player, &blocks.bare);

        if (r)
                return r;
        r = vmm_reserve(&player->stage.cuda, blocks.n_bytes, &blocks.address);
        if (!r) {
                r = run(&blocks, ret_ns);
                (void)vmm_unreserve(&player->stage.cuda, blocks.address, blocks.n_bytes);
        }
        if (!r)
                r = bare_settle(&blocks.bare);
        bare_deinit(&blocks.bare);
        return r;
}

/* block BYTES: ns to lease a cached block, map it, unmap it and return it. */
static int order_block(struct player *player, const char *argument, double ret_numbers[static 1])
{
        return measure(player, argument, measure_blocks, ret_numbers);
}

/* known BYTES: ns to lease a block that this client maps still, and to return it so. */
static int order_known(struct player *player, const char *argument, double ret_numbers[static 1])
{
        return measure(player, argument, measure_known, ret_numbers);
}

const struct order orders_gpumemd[] = {{"block", order_block}, {"known", order_known},
                                       {"trace", order_trace}, {"play", order_play},
                                       {"go", order_go},       {"calls", order_calls},
                                       {"call", order_call},   {NULL, NULL}};

static int lease_once(struct bare *bare)
{
        struct message_leased leased;
        int fd, r = bare_lease(bare, LEASE_BYTES, &leased, &fd);

        if (r)
                return r;
        (void)close(fd);
        return bare_return(bare, leased.lease);
}

static int compare(const void *one, const void *other)
{
        double a = *(const double *)one, b = *(const double *)other;

        return (a > b) - (a < b);
}

/* lease: ns of a lease served from cache and its return; median, and what 99 % do not exceed. */
static int order_lease(struct player *player, const char *argument, double ret_numbers[static 2])
{
        static double times[N_LEASES];
        struct bare bare;
        int r = blocks_link(player, &bare);

        (void)argument;
        if (r)
                return r;
        for (unsigned i = 0; i < N_WARM && !r; i++)
                r = lease_once(&bare);
        for (unsigned i = 0; i < N_LEASES && !r; i++) {
                uint64_t start = clock_now_ns();

                r = lease_once(&bare);
                times[i] = (double)(clock_now_ns() - start);
        }
        bare_deinit(&bare);
        qsort(times, N_LEASES, sizeof(*times), compare);
        ret_numbers[0] = times[N_LEASES / 2];
        ret_numbers[1] = times[N_LEASES * 99 / 100];
        return r;
}

/* reset: peaks begin anew. */
static int order_reset(struct player *player, const char *argument, double ret_numbers[static 1])
{
        (void)argument;
        (void)ret_numbers;
        return reserved_reset(player);
}

/* reserved: bytes that the daemon holds of the device, and their peak. */
static int order_reserved(struct player *player, const char *argument, double ret_numbers[static 2])
{
        (void)argument;
        return reserved_read(player, &ret_numbers[0], &ret_numbers[1]);
}

const struct order orders_client[] = {
        {"lease", order_lease}, {"reset", order_reset}, {"reserved", order_reserved}, {NULL, NULL}};
