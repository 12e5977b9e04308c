/* SPDX-License-Identifier: Apache-2.0 */
/* Crowds that press the daemon: each is made of processes of a user of its own, if this one may become another. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* What a crowd's processes say of themselves. */
struct crowd_counts {
        unsigned n_in;      /* connections past HELLO */
        unsigned n_refused; /* told that they are too many */
        unsigned n_failed;  /* anything else */
        unsigned n_ended;   /* by the daemon, of those that were in */
        unsigned n_asked;   /* requests */
};

enum crowd_kind {
        CROWD_NEVER_READS, /* asks until nothing more is taken, and reads nothing */
        CROWD_CONNECTS,    /* connects, all at once */
        CROWD_ASKS,        /* asks for figures as fast as they come */
};

struct crowd;

/* So many members, who start together, and go on until crowd_end. Aborts on failure. */
struct crowd *crowd_start(enum crowd_kind kind, unsigned n_members);

/* Until each has done what it comes for: it asks in vain, is connected or refused, asks. */
void crowd_await(struct crowd *crowd);

/* They all hang up. Frees the crowd. */
void crowd_end(struct crowd *crowd, struct crowd_counts *ret_counts);
