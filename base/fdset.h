/* SPDX-License-Identifier: Apache-2.0 */
/* Fds on their way: a small set that owns what it holds and closes what was not taken. */
#pragma once

#define FDSET_MAX 4

struct fdset {
        int fds[FDSET_MAX];
        unsigned n;
};

#define FDSET_NULL ((struct fdset){.n = 0})

/* Adds a fd that the set owns from now on. -E2BIG when it is full; the fd is closed then. */
int fdset_add(struct fdset *set, int take_fd);

/* Takes the fd at `index` out; the caller owns it. -1 if it is not there (any more). */
int fdset_steal(struct fdset *set, unsigned index);

/* Closes what is left. */
void fdset_deinit(struct fdset *set);

/* A program that is started without standard input, output or error gets the number of one of them for
 * the next file that it opens, and what it prints goes there. To be called before that: puts a file in
 * each empty place that cannot be written to either, so that printing fails as it must. 0 or -errno. */
int fds_fill_standard(void);

/* For CLEANUP on an `int fd`; -1 is nothing. Keeps errno. */
void closep(int *fd);
