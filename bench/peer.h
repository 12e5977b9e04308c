/* SPDX-License-Identifier: Apache-2.0 */
/* Other allocators for comparison: this program as a child process under LD_PRELOAD. The child measures a
 * repetition of a pattern on request, and sleeps in between. */
#pragma once

#include <stdio.h>
#include <stdint.h>
#include <sys/types.h>

enum peer_allocator { PEER_MIMALLOC, PEER_JEMALLOC, PEER_GLIBC, PEER_N };

enum peer_pattern {
        PEER_PAIR,  /* malloc and free of 64 B */
        PEER_WIDE,  /* the pattern of random.c, sizes / 1024 */
        PEER_SMALL, /* the pattern of growth.c, sizes / 64 */
        PEER_COLD,  /* the pattern of cold.h */
        PEER_N_PATTERNS,
};

struct peer {
        pid_t pid; /* 0: none */
        FILE *requests, *answers;
};

#define PEER_NULL ((struct peer){.pid = 0})

/* `n_live` is for patterns with live allocations. */
int peer_init(enum peer_allocator allocator, enum peer_pattern pattern, uint32_t n_live,
              struct peer *ret_peer);
void peer_deinit(struct peer *peer);

/* Measures one repetition. */
int peer_measure(struct peer *peer, double *ret_ns);

/* Starts a program; a name without '/' is looked up in PATH. The child's ends become its standard input and
 * output. */
int peer_spawn(const char *path, const char *const *arguments, const char *const *environment,
               int in, int out, pid_t *ret_pid);

const char *peer_name(enum peer_allocator allocator);

/* The child's main function: answers requests on its standard input until that ends. Returns the exit
 * status. `arguments` are those that peer_init passed, with NULL at the end. */
#define PEER_OPTION "--peer"
int peer_main(char **arguments);
