/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bare.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/memfd.h"
#include "base/size.h"
#include "bench/commands.h"
#include "client/connection/rows.h"
#include "gpumem.h"
#include "proto/board.h"

static int find_pool(const struct message_welcome *welcome, int fd, uint32_t *ret_pool)
{
        struct pool_row *pools;
        void *rows;
        int r = rows_read(fd, welcome->n_pools, welcome->n_row_bytes, sizeof(*pools), &rows);

        if (r)
                return r;
        pools = rows;
        r = GPUMEM_E_NO_POOL;
        for (uint32_t i = 0; i < welcome->n_pools && r; i++) {
                if (pools[i].kind != GPUMEM_DEVICE)
                        continue;
                *ret_pool = pools[i].id;
                r = 0;
        }
        free(rows);
        return r;
}

static int map_board(const struct message_welcome *welcome, int fd, struct bare *bare)
{
        int r = memfd_map_shared(fd, welcome->n_board_bytes, &bare->board);

        if (r)
                return r;
        bare->n_board_bytes = welcome->n_board_bytes;
        bare->words = board_words(bare->board, welcome->n_pools);
        bare->n_slots = welcome->n_slots;
        r = memfd_make_pages(fd, bare->board, bare->n_board_bytes);
        /* An older daemon has sealed it. */
        (void)memfd_keep_pages(fd);
        return r;
}

static int find_daemon(struct bare *bare)
{
        struct ucred peer;
        socklen_t n_bytes = sizeof(peer);

        if (getsockopt(link_socket(bare->link), SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) < 0)
                return err_errno();
        bare->daemon = peer.pid;
        return 0;
}

int bare_init(const struct options *options, struct bare *ret_bare)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        CLEANUP(bare_deinit)
        struct bare bare = BARE_NULL;
        struct message_welcome welcome;
        int r = link_open(options->socket_path,
                          &(struct link_hello){.program = "gpumem-bench", .seals_board = true},
                          &bare.link, &welcome, &fds);

        if (!r)
                r = find_daemon(&bare);
        if (!r)
                r = find_pool(&welcome, fds.fds[1], &bare.pool);
        if (!r)
                r = map_board(&welcome, fds.fds[0], &bare);
        if (r)
                return r;
        *ret_bare = bare;
        bare = BARE_NULL;
        return 0;
}

void bare_deinit(struct bare *bare)
{
        (void)link_free(bare->link);
        if (bare->board)
                (void)munmap(bare->board, bare->n_board_bytes);
        *bare = BARE_NULL;
}

int bare_lease(struct bare *bare, uint64_t n_bytes, struct message_leased *ret_lease, int *ret_fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.lease.n_bytes = n_bytes;
        request.lease.n_most_units = (uint32_t)(n_bytes / (2 * MIB));
        request.lease.pool = bare->pool;
        r = link_call(bare->link, &request, MESSAGE_LEASE, MESSAGE_LEASED, &reply, &fds);
        if (r)
                return r;
        *ret_lease = reply.leased;
        *ret_fd = fdset_steal(&fds, 0);
        return 0;
}

int bare_return(struct bare *bare, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        return link_send(bare->link, &frame, MESSAGE_RETURN);
}

int bare_unmapped(struct bare *bare, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        return link_send(bare->link, &frame, MESSAGE_UNMAPPED);
}

int bare_clear(struct bare *bare)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        request.free_all_blocks = (struct message_free_all_blocks){.scope = PROTO_SCOPE_TENANT,
                                                                   .pool = PROTO_ALL_POOLS};
        return link_call(bare->link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply,
                         &fds);
}

int bare_settle(struct bare *bare)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        return link_call(bare->link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds);
}
