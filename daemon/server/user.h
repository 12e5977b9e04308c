/* What the sessions of one user take of what all sessions share: file descriptors of the daemon, and
 * fds that have been sent and not been received, which the kernel counts against the daemon's user.
 *
 * A user may have more as long as it has less than what is left for others: one alone gets half, two
 * get a third each, and somebody who comes later finds something. A user lives while a session refers
 * to it; what is sent over a connection is its own until the peer has taken it or hung up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/server/core.h"

/* A socket and a pidfd. */
#define SESSION_N_FDS 2

struct user;

/* The user of this uid, for one session more. GPUMEM_E_TOO_MANY: it has its share; -ENOMEM. */
int user_ref(struct server *server, uint32_t uid, struct user **ret_user);
struct user *user_unref(struct user *user);

/* Whether so many fds more may be in flight, and that they are, or are not any more. */
bool user_may_send(const struct user *user, unsigned n_fds);
void user_note_sent(struct user *user, unsigned n_fds);
void user_note_received(struct user *user, unsigned n_fds);
