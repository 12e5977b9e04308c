/* Closes what processes may have put file descriptors into: sockets of a kernel that lets clients send some. Who
 * closes the last of a file does what that takes, and the sender chooses the file: a socket that lingers waits for as
 * long as it was told to, and a file of much memory takes its time. So a thread of its own does it, which no
 * socket makes linger. Any thread. */
#pragma once

struct closer;

int closer_new(struct closer **ret_closer);

/* NULL is legal; returns NULL. What is left to do is done first, if that does not take long. */
struct closer *closer_free(struct closer *closer);

void closer_take(struct closer *closer, int take_fd);
