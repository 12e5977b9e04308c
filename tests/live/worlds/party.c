/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/worlds/party.h"

#include <sys/mman.h>

#include "base/memfd.h"
#include "proto/board.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/frames_world.h"

static bool is_hint(const struct message_notice *notice)
{
        return notice->what == PROTO_NOTICE_MARK || notice->what == PROTO_NOTICE_PRESSURE;
}

void party_expect(const struct party *party, enum message_kind kind, struct frame *ret_frame,
                  struct fdset *ret_fds)
{
        struct proto_reason reason;

        /* Idle leases are marked already, and nothing else is freed: these change nothing. */
        do
                ck_assert_int_eq(
                        frame_socket_receive(party->fd, FROM_DAEMON, ret_frame, ret_fds, &reason),
                        0);
        while (ret_frame->kind == MESSAGE_NOTICE && is_hint(&ret_frame->notice));
        ck_assert_msg(ret_frame->kind == kind, "%s came, not %s: %s", proto_name(ret_frame->kind),
                      proto_name(kind),
                      ret_frame->kind == MESSAGE_ERROR ? ret_frame->error.text : "");
}

uint32_t party_say(struct party *party, struct frame *frame, enum message_kind kind)
{
        proto_seal(frame, kind, ++party->serial, 0);
        ck_assert_int_eq(frame_socket_send(party->fd, frame, NULL), 0);
        return party->serial;
}

struct party party_join(void)
{
        struct party party = {.fd = connect_raw()};
        struct frame hello = hello_frame(), welcome;
        struct fdset fds = FDSET_NULL;

        hello.hello.features |= PROTO_FEATURE_BOARD;
        party_say(&party, &hello, MESSAGE_HELLO);
        party_expect(&party, MESSAGE_WELCOME, &welcome, &fds);
        party.n_board_bytes = welcome.welcome.n_board_bytes;
        party.n_slots = welcome.welcome.n_slots;
        party.pinned = welcome.welcome.n_pools - 1;
        ck_assert_int_eq(memfd_map_shared(fds.fds[0], party.n_board_bytes, &party.board), 0);
        ck_assert_int_eq(memfd_make_pages(fds.fds[0], party.board, party.n_board_bytes), 0);
        ck_assert_int_eq(memfd_keep_pages(fds.fds[0]), 0);
        party.words = board_words(party.board, welcome.welcome.n_pools);
        fdset_deinit(&fds);
        return party;
}

/* The kernel tells the daemon which user has connected. */
struct party party_join_as(uid_t uid)
{
        struct party party;

        ck_assert_int_eq(seteuid(uid), 0);
        party = party_join();
        ck_assert_int_eq(seteuid(0), 0);
        return party;
}

void party_leave(struct party *party)
{
        (void)munmap(party->board, party->n_board_bytes);
        closep(&party->fd);
}

struct message_leased party_take(const struct party *party, int *ret_fd)
{
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        party_expect(party, MESSAGE_LEASED, &frame, &fds);
        ck_assert(board_is(&party->words[frame.leased.slot], frame.leased.lease, BOARD_BUSY));
        if (ret_fd)
                *ret_fd = fdset_steal(&fds, 0);
        fdset_deinit(&fds);
        return frame.leased;
}

struct message_leased party_lease(struct party *party, uint32_t pool, uint64_t n_bytes)
{
        struct frame frame = lease_frame(pool, n_bytes, 0);

        party_say(party, &frame, MESSAGE_LEASE);
        return party_take(party, NULL);
}

void party_mark_idle(const struct party *party, const struct message_leased *leased)
{
        ck_assert(board_step(&party->words[leased->slot], leased->lease, BOARD_BUSY, BOARD_IDLE));
}

bool party_was_revoked(const struct party *party, const struct message_leased *leased)
{
        return board_is(&party->words[leased->slot], leased->lease, BOARD_REVOKED);
}

void party_give_back(struct party *party, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.return_lease.lease = lease;
        frame.return_lease.flags = PROTO_RETURN_UNMAPPED;
        party_say(party, &frame, MESSAGE_RETURN);
}

void party_unmapped(struct party *party, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.unmapped.lease = lease;
        party_say(party, &frame, MESSAGE_UNMAPPED);
}
