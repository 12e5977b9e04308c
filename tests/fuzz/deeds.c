/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/deeds.h"

#include "base/err.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"
#include "proto/board.h"
#include "proto/listing.h"
#include "tests/fuzz/loop.h"
#include "tests/fuzz/machine.h"

static const struct {
        uint32_t uid;
        int pid;
} people[] = {{0, 100}, {1000, 101}, {1000, 102}, {1001, 103}, {1002, 104}, {1001, 103}};

static struct peer_process *any_process(struct world *world)
{
        return &peers.processes[input_below(world->input, N_PEERS)];
}

uint64_t deeds_any_bytes(struct world *world)
{
        uint8_t byte = input_byte(world->input);

        if (byte == 255)
                return input_u64(world->input);
        return 2 * MIB * (byte % 32);
}

/* Mostly one that there is. */
static uint32_t any_pool(struct world *world)
{
        uint8_t byte = input_byte(world->input);

        return byte == 255 ? PROTO_ALL_POOLS : byte % (byte < 240 ? MACHINE_N_POOLS : 8);
}

/* Mostly one that it has, or had. */
static const struct peer_lease *any_lease(struct world *world, const struct peer_process *process)
{
        static struct peer_lease made_up;
        unsigned which = input_byte(world->input);
        unsigned n = process->n_leases < N_LEASES_MAX ? process->n_leases : N_LEASES_MAX;

        if (n && which < 240)
                return &process->leases[which % n];
        made_up = (struct peer_lease){which % 64 + 1, which % 64};
        return &made_up;
}

static void say(struct peer_process *process, struct frame *frame, enum message_kind kind)
{
        struct datagram datagram = {.n_fds = 0};

        proto_seal(frame, kind, ++process->serial, 0);
        datagram.n_bytes = frame->n_bytes;
        memcpy(datagram.bytes, frame, frame->n_bytes);
        (void)peers_say(process, &datagram);
}

static void say_hello(struct world *world, struct peer_process *process)
{
        uint8_t how = input_byte(world->input);
        struct frame frame = FRAME_NULL;

        frame.hello.magic = PROTO_MAGIC;
        frame.hello.version = PROTO_VERSION + how % 2;
        frame.hello.features = how / 2 % 4 | (how & 32 ? PROTO_FEATURE_REGISTERED : 0) |
                               (how & 64 ? 0 : PROTO_FEATURE_BOARD);
        frame.hello.incarnation = how & 8 ? peers.incarnation : how & 16;
        frame.hello.n_held_bytes = frame.hello.incarnation ? deeds_any_bytes(world) : 0;
        proto_put_text(frame.hello.program, sizeof(frame.hello.program), "fuzz");
        say(process, &frame, MESSAGE_HELLO);
}

/* A file that the daemon has closed belongs to no process any more: its number may be another file's by now. */
static void forget_closed(const struct server *server)
{
        for (unsigned i = 0; i < N_PEERS; i++) {
                struct peer_process *process = &peers.processes[i];
                const struct session *session;
                int fd = -1, pidfd = -1;

                LIST_FOREACH (session, &server->sessions, link) {
                        if (session->transport.fd == process->fd)
                                fd = process->fd;
                        if (session->peer.pidfd == process->pidfd)
                                pidfd = process->pidfd;
                }
                process->fd = fd;
                process->pidfd = pidfd;
        }
}

static void join(struct world *world)
{
        unsigned which = input_below(world->input, N_PEERS);
        struct peer_process *process = &peers.processes[which];
        uint8_t how = input_byte(world->input);
        struct accepted accepted;

        forget_closed(world->server);
        if (process->fd >= 0 || process->pidfd >= 0)
                return;
        *process = (struct peer_process){.fd = machine_file(),
                                         .pidfd = -1,
                                         .uid = people[which].uid,
                                         .pid = people[which].pid,
                                         .is_open = true,
                                         .is_dead = how == 255,
                                         .reads = how % 4 != 0};
        accepted = peers_accept(process);
        if (!session_accept(world->server, &accepted,
                            how & 32 ? SESSION_AS_ADMIN : SESSION_AS_CLIENT))
                accepted_close(&accepted, NULL);
        if (how < 240)
                say_hello(world, process);
}

static struct session *find_session(const struct server *server, const struct peer_process *process)
{
        struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                if (session->transport.fd == process->fd && session->state == SESSION_READY)
                        return session;
        }
        return NULL;
}

/* As a client does that has mapped its board. */
static void keep_board(struct world *world, const struct peer_process *process)
{
        const struct session *session = find_session(world->server, process);
        const struct stock_file *file = session ? &session->board.file : NULL;

        if (!file || !file->bytes || memfd_pages_are_kept(file->fd))
                return;
        FUZZ_EXPECT(memfd_make_pages(file->fd, file->bytes, file->n_bytes) == 0);
        FUZZ_EXPECT(memfd_keep_pages(file->fd) == 0);
}

static void lease(struct world *world)
{
        struct peer_process *process = any_process(world);
        uint8_t how = input_byte(world->input);
        struct frame frame = FRAME_NULL;

        frame.lease.n_bytes = deeds_any_bytes(world);
        frame.lease.pool = any_pool(world);
        frame.lease.properties = how % 4 == 0   ? PROTO_PROPERTY_SHAREABLE
                                 : how % 8 == 1 ? how / 16 & PROTO_PROPERTIES
                                                : 0;
        frame.lease.wait_ms = how & 4 ? input_byte(world->input) * 8u : 0;
        if (how == 254)
                frame.lease.wait_ms = UINT32_MAX;
        frame.lease.n_most_units = how & 8 ? input_byte(world->input) : 0;
        frame.lease.n_least_units = how & 16 ? input_byte(world->input) : 0;
        frame.lease.flags = how / 16;
        if (how % 16 != 15)
                keep_board(world, process);
        say(process, &frame, MESSAGE_LEASE);
}

static void give_back(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;
        uint8_t how = input_byte(world->input);

        frame.return_lease.lease = any_lease(world, process)->id;
        frame.return_lease.flags = how % 2;
        if (how & 2)
                say(process, &frame, MESSAGE_DETACH);
        else
                say(process, &frame, MESSAGE_RETURN);
}

static void unmap(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = any_lease(world, process)->id;
        say(process, &frame, MESSAGE_UNMAPPED);
}

static void hold(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;

        frame.held.pool = any_pool(world);
        frame.held.n_bytes = deeds_any_bytes(world);
        say(process, &frame, MESSAGE_HELD);
}

static void cancel(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;

        frame.cancel.request = process->serial - input_below(world->input, 4);
        say(process, &frame, MESSAGE_CANCEL);
}

static void share(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;
        uint8_t how = input_byte(world->input);

        frame.share.lease = any_lease(world, process)->id;
        frame.share.n_bytes = 1 + deeds_any_bytes(world) / 2;
        frame.share.flags = how % 2;
        frame.share.uid = people[how / 2 % ARRAY_SIZE(people)].uid;
        /* The two begin alike. */
        if (how & 128)
                frame.share_kept.keep_ms = how & 64 ? UINT32_MAX : how & 63;
        say(process, &frame, how & 128 ? MESSAGE_SHARE_KEPT : MESSAGE_SHARE);
}

static void use_token(struct world *world)
{
        struct peer_process *process = any_process(world);
        uint8_t how = input_byte(world->input);
        const uint64_t *token = peers.tokens[how % N_TOKENS_MAX];
        struct frame frame = FRAME_NULL;

        frame.attach.token_low = token[0];
        frame.attach.token_high = token[1] + (how == 255);
        say(process, &frame, how & 4 && how & 8 ? MESSAGE_UNSHARE : MESSAGE_ATTACH);
}

static void set_limit(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;
        uint8_t how = input_byte(world->input);

        frame.set_limits.scope = 1 + how % 3;
        frame.set_limits.holder = how & 4 ? PROTO_LIMIT_OF_EACH
                                          : people[how / 32 % ARRAY_SIZE(people)].uid;
        if (frame.set_limits.scope == PROTO_LIMIT_OF_POOL)
                frame.set_limits.holder = any_pool(world);
        frame.set_limits.kind = 1 + how / 8 % 5;
        frame.set_limits.flags = input_byte(world->input) % 4;
        frame.set_limits.max = deeds_any_bytes(world);
        if (how == 255)
                frame.set_limits.max = PROTO_LIMIT_INHERIT;
        say(process, &frame, MESSAGE_SET_LIMITS);
}

static void ask_for_lists(struct world *world)
{
        static const enum message_kind kinds[] = {MESSAGE_STATS,  MESSAGE_POOLS,   MESSAGE_CLIENTS,
                                                  MESSAGE_BLOCKS, MESSAGE_TENANTS, MESSAGE_LIMITS,
                                                  MESSAGE_EVENTS};
        enum message_kind kind = kinds[input_below(world->input, ARRAY_SIZE(kinds))];
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;

        if (kind == MESSAGE_BLOCKS)
                frame.blocks.pool = any_pool(world);
        if (kind == MESSAGE_EVENTS)
                frame.events.kinds = input_byte(world->input);
        say(process, &frame, kind);
}

static void reclaim(struct world *world, struct peer_process *process, uint8_t how)
{
        struct frame frame = FRAME_NULL;

        frame.reclaim.uid = how & 8 ? LISTING_NOBODY : people[how / 16 % ARRAY_SIZE(people)].uid;
        if (input_byte(world->input) % 2)
                proto_put_text(frame.reclaim.container, sizeof(frame.reclaim.container),
                               "/a/machine-container.scope");
        say(process, &frame, MESSAGE_RECLAIM);
}

static void free_all(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;
        uint8_t how = input_byte(world->input);

        if ((how & 6) == 4) {
                reclaim(world, process, how);
                return;
        }
        frame.free_all_blocks.scope = 1 + how % 2;
        frame.free_all_blocks.pool = any_pool(world);
        say(process, &frame, how & 2 ? MESSAGE_FREE_ALL_BLOCKS : MESSAGE_RESET_PEAKS);
}

static void say_anything(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct datagram datagram;

        datagram_read(world->input, FROM_CLIENT, &datagram);
        (void)peers_say(process, &datagram);
}

static void end_one(struct world *world)
{
        struct peer_process *process = any_process(world);
        struct frame frame = FRAME_NULL;

        switch (input_below(world->input, 8)) {
        case 0:
                say(process, &frame, MESSAGE_BYE);
                break;
        case 1:
        case 2:
                peers_hang_up(process);
                break;
        case 3:
                process->is_dead = true;
                break;
        case 4:
                process->is_done = true;
                process->goes_in_read = process->n_said % 2;
                break;
        default:
                peers_hang_up(process);
                process->is_dead = true;
                break;
        }
}

/* Its own counters and words, be they true or not. */
static void write_on_board(struct world *world)
{
        struct peer_process *process = any_process(world);
        const struct peer_lease *spoken_of = any_lease(world, process);
        struct session *session = find_session(world->server, process);
        uint8_t how = input_byte(world->input);
        struct board_pool *pool;
        _Atomic uint64_t *word;

        if (!session || !session->board.file.bytes || spoken_of->slot >= world->server->n_slots)
                return;
        word = &board_words(session->board.file.bytes, MACHINE_N_POOLS)[spoken_of->slot];
        if (how < 192) {
                atomic_store(word, board_word(spoken_of->id, (enum board_state)(how % 4)));
        } else if (how < 208) {
                atomic_store(word, input_u64(world->input));
        } else {
                pool = board_pool(session->board.file.bytes, how % MACHINE_N_POOLS);
                atomic_store(&pool->lanes[how % BOARD_LANES].requested, input_u64(world->input));
                atomic_store(&pool->lanes[how % BOARD_LANES].allocated, input_u64(world->input));
                atomic_store(&pool->requested_peak, input_u64(world->input));
        }
}

static void read_all(struct world *world)
{
        struct peer_process *process = any_process(world);

        process->n_unread = 0;
        process->reads = input_byte(world->input) % 4 != 0;
}

void deeds_do(struct world *world)
{
        static void (*const deeds[])(struct world * world) = {
                join,         join,    lease,     lease,          lease,          lease,
                lease,        lease,   give_back, give_back,      unmap,          hold,
                cancel,       share,   use_token, set_limit,      free_all,       ask_for_lists,
                say_anything, end_one, read_all,  write_on_board, write_on_board,
        };

        deeds[input_below(world->input, ARRAY_SIZE(deeds))](world);
}
