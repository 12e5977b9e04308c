/* SPDX-License-Identifier: Apache-2.0 */
/* Closes what processes may have put file descriptors into: sockets of a kernel that lets clients send some. Who
 * closes the last of a file does what that takes, and the sender chooses the file: a socket that lingers waits for as
 * long as it was told to, and a file of much memory takes its time. So a thread of its own does it, which no
 * socket makes linger. Any thread. */
#pragma once

struct fd_closer;

int fd_closer_new(struct fd_closer **ret_closer);

/* NULL is legal; returns NULL. What is left to do is done first, if that does not take long. */
struct fd_closer *fd_closer_free(struct fd_closer *closer);

void fd_closer_take(struct fd_closer *closer, int take_fd);
