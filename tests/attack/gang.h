/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of other users that attack the daemon, or ask beside an attack. Root starts them; they end with the
 * process that started them, and after GANG_SECONDS_MAX at the latest. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

#define GANG_MEMBERS_MAX 256
#define GANG_SECONDS_MAX 180

/* Where its processes run. */
enum gang_place {
        GANG_ON_HOST,
        GANG_IN_CONTAINERS, /* each in one of its own */
        GANG_IN_CONTAINER, /* all in one, with a user namespace that the user owns; each is another uid there */
};

struct gang_member;

struct gang_rule {
        unsigned n; /* processes */
        uid_t uid;
        bool each_a_user; /* the uids from there on, one for each process */
        bool comes_first; /* the kernel prefers it: what it does not ask for is not the daemon's to give */
        enum gang_place place;
        /* Runs in each process. Its end is the end of the process. */
        void (*work)(struct gang_member *self);
        unsigned amount;  /* connections, leases: what `work` makes of it */
        unsigned window;  /* requests under way on a connection */
        unsigned held;    /* leases of 2 MiB that each connection holds meanwhile */
        uint64_t n_bytes; /* of each lease */
};

/* Shared by a process and the one that started it. */
struct gang_member {
        const struct gang_rule *rule;
        struct gang_control *control;
        unsigned index;
        pid_t pid;
        atomic_bool is_ready;
        atomic_uint_least64_t n_done;    /* requests that were answered as they should be */
        atomic_uint_least64_t n_refused; /* that the daemon refused, with a reason */
        atomic_uint_least64_t n_failed;  /* anything else */
        atomic_int first_error;          /* what it was refused with first, or failed with */
};

struct gang;

/* Aborts on failure. The rule must live as long as the gang. */
struct gang *gang_start(const struct gang_rule *rule);

/* Until each member has called gang_is_ready, or has ended; false: not within `seconds`. */
bool gang_await(struct gang *gang, unsigned seconds);

/* Lets the members pass gang_is_ready; holds up and lets go those that call gang_pass. */
void gang_go(struct gang *gang);
void gang_pause(struct gang *gang, bool is_paused);

/* SIGKILL to all members, at once. */
void gang_kill(struct gang *gang);

struct gang_counts {
        uint64_t n_done, n_refused, n_failed;
        int first_error; /* of any member */
};
struct gang_counts gang_count(const struct gang *gang);

/* Kills what is left, waits for it, and frees the gang. */
void gang_end(struct gang *gang);

/* For members. The first: all is prepared; returns when the attack begins. The second: does not return while the gang is
 * paused. */
void gang_is_ready(struct gang_member *self);
void gang_pass(struct gang_member *self);

/* For members: zero at first, and shared by all of the gang. */
#define GANG_WORDS 4
atomic_uint_least64_t *gang_words(struct gang_member *self);

/* For members: a process of their own, which ends with them. It returns in both, as fork does. */
pid_t gang_fork(void);

/* Whether a gang of that place can be made here. */
bool gang_can_be(enum gang_place place);

/* Removes what was made for containers. No gang may be left. */
void gang_remove_containers(void);
