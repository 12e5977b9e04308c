/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that speak to the daemon, and the kernel between both, played: calls about sockets end in peers.c. What
 * the daemon sends is checked there, and remembered so that it can be spoken of. One daemon at a time; one thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/transport/acceptor.h"
#include "proto/messages.h"
#include "tests/fuzz/datagram.h"

#define N_PEERS      6
#define N_SAID_MAX   12
#define N_LEASES_MAX 24
#define N_TOKENS_MAX 4

struct peer_lease {
        uint64_t id;
        uint32_t slot;
};

struct peer_process {
        int fd;    /* the daemon's end; -1: none */
        int pidfd; /* the daemon's too */
        uint32_t uid;
        int pid;
        bool is_open; /* it has not hung up */
        bool is_done; /* it says no more, and reads on */
        bool is_dead;
        bool reads;        /* at once what it is sent */
        bool is_cut;       /* by the daemon */
        bool is_reset;     /* it has hung up with answers unread; to be told once */
        bool goes_in_read; /* hangs up between two datagrams that the daemon reads at once */
        struct datagram said[N_SAID_MAX];
        unsigned n_said;
        unsigned n_unread;
        uint32_t serial; /* of its last request */
        struct peer_lease leases[N_LEASES_MAX];
        unsigned n_leases;
        bool is_welcome;
};

struct peers {
        struct peer_process processes[N_PEERS];
        uint64_t tokens[N_TOKENS_MAX][2];
        unsigned n_tokens;
        uint64_t incarnation;
        unsigned n_welcomes;
        unsigned n_leased;
        unsigned send_fails, watch_fails; /* the next calls do, for the machine's sake */
};

extern struct peers peers;

void peers_begin(void);

/* Its connection, as the acceptor hands it over. */
struct accepted peers_accept(struct peer_process *process);

void peers_hang_up(struct peer_process *process);

/* Whether there was room for what it says. */
bool peers_say(struct peer_process *process, const struct datagram *datagram);

/* Whether the file is a socket or a process of theirs, and what epoll_wait would tell of it at present. */
bool peers_find_ready(int fd, uint32_t *ret_events);
