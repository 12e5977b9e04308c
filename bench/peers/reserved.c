#include <stdlib.h>

#include "base/err.h"
#include "bench/commands.h"
#include "bench/peers/blocks.h"
#include "client/rows.h"
#include "proto/address.h"

/* A link of its own, which stays: to connect is not for nothing. Over the admin socket, since everybody's
 * peaks are reset. */
static int get_link(struct player *player)
{
        struct options options = {.socket_path = NULL};
        struct sockaddr_un client, admin;
        struct bare bare;
        int r;

        if (player->bare)
                return 0;
        r = address_to_connect(player->socket_path, &client);
        if (!r)
                r = address_of_admin(&client, &admin);
        options.socket_path = admin.sun_path;
        if (!r)
                r = bare_init(&options, &bare);
        if (r)
                return r;
        player->bare = malloc(sizeof(bare));
        if (player->bare)
                *player->bare = bare;
        else
                bare_deinit(&bare);
        return player->bare ? 0 : -ENOMEM;
}

int reserved_reset(struct player *player)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r = get_link(player);

        if (r)
                return r;
        request.reset_peaks.scope = PROTO_SCOPE_NODE;
        request.reset_peaks.pool = player->bare->pool;
        return link_call(player->bare->link, &request, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET,
                         &reply, &fds);
}

int reserved_read(struct player *player, double *ret_bytes, double *ret_peak)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        void *rows;
        int r = get_link(player);

        if (!r)
                r = link_call(player->bare->link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY,
                              &reply, &fds);
        if (!r)
                r = rows_read(fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes,
                              sizeof(struct stats_row), &rows);
        if (r)
                return r;
        for (uint32_t i = 0; i < reply.stats_reply.n_rows; i++) {
                const struct stats_row *row = (const struct stats_row *)rows + i;

                if (row->pool != player->bare->pool)
                        continue;
                *ret_bytes = (double)row->reserved;
                *ret_peak = (double)row->reserved_peak;
        }
        free(rows);
        return 0;
}
