/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/links.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/fdset.h"
#include "base/memfd.h"
#include "client/connection/rows.h"
#include "client/runtime/last_error.h"
#include "proto/board.h"
#include "tests/live/support/daemon.h"
#include "tests/suite.h"

struct link *open_link_at(const char *socket, const char *program,
                          struct message_welcome *ret_welcome)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;
        int r = link_open(socket, &(struct link_hello){.program = program}, &link, &welcome, &fds);

        ck_assert_msg(!r, "%s is not connected: %d, %s", program, r, last_error_reason(r));
        fdset_deinit(&fds);
        if (ret_welcome)
                *ret_welcome = welcome;
        return link;
}

struct link *open_link(const char *program, struct message_welcome *ret_welcome)
{
        return open_link_at(NULL, program, ret_welcome);
}

struct link *open_admin_link(const char *program)
{
        return open_link_at(daemon_admin_socket(), program, NULL);
}

struct member member_join(const char *program)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct member member;

        ck_assert_int_eq(link_open(NULL,
                                   &(struct link_hello){.program = program, .seals_board = true},
                                   &member.link, &welcome, &fds),
                         0);
        member.n_board_bytes = welcome.n_board_bytes;
        member.n_slots = welcome.n_slots;
        member.pinned = welcome.n_pools - 1;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], member.n_board_bytes, &member.board), 0);
        ck_assert_int_eq(memfd_make_pages(fds.fds[0], member.board, member.n_board_bytes), 0);
        ck_assert_int_eq(memfd_keep_pages(fds.fds[0]), 0);
        member.words = board_words(member.board, welcome.n_pools);
        fdset_deinit(&fds);
        return member;
}

void member_end(struct member *member)
{
        member->link = link_free(member->link);
        (void)munmap(member->board, member->n_board_bytes);
}

int ask_over(struct link *link, struct frame *request, enum message_kind kind,
             struct frame *ret_reply)
{
        struct fdset fds = FDSET_NULL;
        struct frame reply;
        int r = link_call(link, request, kind, (enum message_kind)(kind | ANSWER), &reply, &fds);

        fdset_deinit(&fds);
        if (!r && ret_reply)
                *ret_reply = reply;
        return r;
}

/* All replies that are lists begin with the same fields. */
void *rows_over(struct link *link, struct frame *request, enum message_kind kind,
                size_t n_row_bytes, struct frame *ret_reply)
{
        enum message_kind reply_kind = (enum message_kind)(kind | ANSWER);
        struct fdset fds = FDSET_NULL;
        void *rows = NULL;

        ck_assert_int_eq(link_call(link, request, kind, reply_kind, ret_reply, &fds), 0);
        if (ret_reply->stats_reply.n_rows)
                ck_assert_int_eq(rows_read(fds.fds[0], ret_reply->stats_reply.n_rows,
                                           ret_reply->stats_reply.n_row_bytes, n_row_bytes, &rows),
                                 0);
        fdset_deinit(&fds);
        return rows;
}

void say_over(struct link *link, struct frame *frame, enum message_kind kind)
{
        ck_assert_int_eq(link_send(link, frame, kind), 0);
}

int free_all_over(struct link *link, uint32_t scope, uint32_t pool, uint64_t *ret_bytes)
{
        struct frame request = {.free_all_blocks = {.scope = scope, .pool = pool}}, reply;
        int r = ask_over(link, &request, MESSAGE_FREE_ALL_BLOCKS, &reply);

        if (!r && ret_bytes)
                *ret_bytes = reply.freed.n_bytes;
        return r;
}

int reset_peaks_over(struct link *link, uint32_t scope, uint32_t pool)
{
        struct frame request = {.reset_peaks = {.scope = scope, .pool = pool}};

        return ask_over(link, &request, MESSAGE_RESET_PEAKS, NULL);
}

int lease_over(struct link *link, const struct message_lease *wanted,
               struct message_leased *ret_leased)
{
        struct frame request = {.lease = *wanted}, reply;
        int r = ask_over(link, &request, MESSAGE_LEASE, &reply);

        if (!r)
                *ret_leased = reply.leased;
        return r;
}

void return_over(struct link *link, uint64_t lease, uint32_t flags)
{
        struct frame frame = {.return_lease = {.lease = lease, .flags = flags}};

        say_over(link, &frame, MESSAGE_RETURN);
}

void unmapped_over(struct link *link, uint64_t lease)
{
        struct frame frame = {.unmapped = {.lease = lease}};

        say_over(link, &frame, MESSAGE_UNMAPPED);
}

int set_limit_over(struct link *link, const struct message_set_limits *change, uint64_t *ret_max)
{
        struct frame request = {.set_limits = *change}, reply;
        int r = ask_over(link, &request, MESSAGE_SET_LIMITS, &reply);

        if (!r && ret_max)
                *ret_max = reply.limits_set.max;
        return r;
}

unsigned find_limit(struct link *link, uint32_t scope, uint32_t holder, uint32_t kind,
                    struct limit_row *ret_row)
{
        struct frame request = FRAME_NULL, reply;
        struct limit_row *rows = rows_over(link, &request, MESSAGE_LIMITS, sizeof(*rows), &reply);
        unsigned n_found = 0;

        for (uint32_t i = 0; i < reply.limits_reply.n_rows; i++) {
                if (rows[i].scope != scope || rows[i].holder != holder ||
                    (kind != ANY_LIMIT && rows[i].kind != kind))
                        continue;
                *ret_row = rows[i];
                n_found++;
        }
        free(rows);
        return n_found;
}
