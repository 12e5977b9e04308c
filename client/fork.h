/* A forked child has no client. Its copies of the socket are closed, so that the end of the parent
 * is still seen by the daemon, and a word that the kernel wipes at fork tells it apart in one load.
 * Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/queue.h>

struct fork_guard {
        LIST_ENTRY(fork_guard) link;
        _Atomic uint32_t *here; /* 1; 0 in a child */
        int socket;             /* closed in a child */
};

int fork_guard_init(struct fork_guard *guard, int socket);
/* The client speaks over another socket from now on. */
void fork_guard_set_socket(struct fork_guard *guard, int socket);

void fork_guard_deinit(struct fork_guard *guard);

/* GPUMEM_E_FORKED in a child of the process that made the guard. */
int fork_guard_check(const struct fork_guard *guard);
