/* Who is at the other end of a connection, as the kernel knows it; never what it claims. */
#pragma once

#include <sys/types.h>

struct peer {
        pid_t pid; /* for people; may name somebody else later */
        uid_t uid;
        int pidfd; /* readable when the process has ended */
};

#define PEER_NULL                     \
        {                             \
                .pid = 0, .pidfd = -1 \
        }

/* The process that connected. -ESRCH when it is gone already. */
int peer_init(struct peer *peer, int socket);
void peer_deinit(struct peer *peer);
