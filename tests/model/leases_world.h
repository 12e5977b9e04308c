/* SPDX-License-Identifier: Apache-2.0 */
/* A small world of idle leases that is explored: the daemon's policy, as it is, with one pool; a few
 * clients, each a machine of the steps that a client of the protocol makes; what they have sent each
 * other; and what the driver has made. No other part can see half of a step.
 *
 * The world lies in memory of explore_heap, so that it can be saved and restored. One thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/policy.h"
#include "daemon/policy/report/stats.h"

#define N_PARTIES_MAX 3
#define N_SLOTS       3
#define N_MESSAGES    12
#define N_MADE        16
#define N_STEPS_MAX   128
#define BLOCK_BYTES   (2 * MIB)

/* A client that has so many messages unread by the daemon waits with the next one. */
#define N_SENT_MAX 2

enum mutant {
        MUTANT_NONE,
        MUTANT_IDLE_WHILE_USED, /* the lease is marked before the block's use is over */
        MUTANT_USES_REVOKED,    /* a failed step out of IDLE is taken for one that was made */
        MUTANT_KNOWN_UNMAPPED,  /* KNOWN is believed, whether the block is mapped or not */
        MUTANT_KNOWN_FORGETS,   /* the lease that the block was mapped for is not said to be over */
};

/* What kind of world it is, and how often what must not happen for ever happens at most. */
struct world_kind {
        const char *name;
        unsigned n_parties;
        uint32_t uids[N_PARTIES_MAX];
        unsigned n_blocks; /* that the pool has room for */
        unsigned n_asks[N_PARTIES_MAX];
        unsigned n_faults;  /* ends and stops */
        unsigned n_revokes; /* that no request has caused */
        unsigned n_lies;    /* of the first party */
        unsigned n_cancels;
        bool known_will_do;
        bool only_known; /* who maps what was taken from it may ask for nothing else */
        enum mutant mutant;
};

enum held_state {
        HELD_NONE,
        HELD_BUSY,
        HELD_IDLE,       /* marked so; has it back by a step, or finds it revoked */
        HELD_REVOKED,    /* found so */
        HELD_RETURNED,   /* RETURN was said, UNMAPPED was not */
        HELD_SAY_RETURN, /* the block is unmapped, and that is to be said */
        HELD_SAY_UNMAPPED,
};

/* A lease as its client sees it, by its slot. */
struct held {
        enum held_state state;
        bool mapped;
        bool used;
        bool was_used; /* for the first time, since it was had */
        uint64_t lease;
        uint64_t block;
};

enum message_kind {
        SAY_LEASE,
        SAY_LEASE_KNOWN, /* no other will do */
        SAY_CANCEL,
        SAY_RETURN,
        SAY_RETURN_MAPPED,
        SAY_UNMAPPED,
        SAY_END,
        TELL_LEASED,
        TELL_KNOWN,
        TELL_REFUSED,
        TELL_NOTICE,
        TELL_END,
};

struct message {
        enum message_kind kind;
        uint32_t slot;
        uint64_t lease;
        uint64_t block;
};

struct queue {
        unsigned n;
        struct message messages[N_MESSAGES];
};

/* As in the daemon's server. */
enum party_session { SESSION_READY, SESSION_LEFT, SESSION_ORPHANED, SESSION_OVER };
enum party_life { LIFE_RUNS, LIFE_STOPPED, LIFE_OVER };

struct party {
        uint32_t uid;
        enum party_life life;
        enum party_session session;
        bool left; /* it has ended the connection, or has seen the end: it does not know its words */
        bool lies;
        bool asking;
        unsigned n_asks_left;
        struct client *client; /* until the policy has seen both ends */
        struct held held[N_SLOTS];
        struct queue to_daemon;
        struct queue from_daemon;
        _Atomic uint64_t words[N_SLOTS];
};

/* What the driver has made, for whose tenant; there until it was released. */
struct made {
        uint64_t block;
        uint32_t uid;
        bool there;
};

struct job {
        bool creates;
        struct block *block;
};

struct world {
        struct world_kind kind;
        struct policy *policy;
        uint64_t now_ns;
        unsigned n_faults_left, n_revokes_left, n_lies_left, n_cancels_left;
        struct party parties[N_PARTIES_MAX];
        struct job jobs[N_MADE];
        unsigned n_jobs;
        struct made made[N_MADE];
        unsigned n_made;
        unsigned race; /* the number of the daemon's step that the client comes before; 0: none */
        unsigned n_races;   /* such steps, so far */
        const char *broken; /* what must never be so, and is */
};

enum step_kind {
        /* the client's */
        STEP_ASK,
        STEP_ASK_KNOWN,
        STEP_CANCEL,
        STEP_HEAR,
        STEP_USE,
        STEP_REST,
        STEP_MARK,
        STEP_TAKE_BACK,
        STEP_UNMAP,
        STEP_SAY,
        STEP_RETURN_MAPPED,
        STEP_LEAVE,
        STEP_STOP,
        STEP_DIE,
        STEP_LIE, /* STEP_LIE + which lie */
        STEP_LIE_LAST = STEP_LIE + 6,
        /* the daemon's */
        STEP_TAKE,
        STEP_SEE_DEATH,
        STEP_CUT,
        STEP_REVOKE,
        STEP_REVOKE_FROM_OTHER,
        STEP_TURN,
        STEP_LOOK,
        STEP_WORK,
        N_STEP_KINDS,
};

struct step {
        uint8_t kind;
        uint8_t party;
        uint8_t slot;
        uint8_t race;
};

extern struct world *world;

/* Makes it, in the heap of explore_heap. */
void world_begin(const struct world_kind *kind);

/* Fills in what may happen next; how many. */
unsigned world_steps(struct step *steps);
const char *step_name(const struct step *step);

/* Makes a step, which may happen. */
void world_step(const struct step *step);

/* Asserts what must always be so, or says what is broken. */
void world_check(void);

/* No client requests anything and nothing fails any more: all memory must come free. */
void world_rest(void);

/* Equal for states that cannot be told apart: the same but for the numbers of leases and blocks. */
struct fingerprint {
        uint64_t words[2];
};
struct fingerprint world_fingerprint(void);

/* The parts: the client's and the daemon's steps. */
bool client_may(const struct step *step);
void client_step(const struct step *step);
bool daemon_may(const struct step *step);
void daemon_step(const struct step *step);

/* A client's step out of IDLE, by any process that knows the word. */
void party_take_back(struct party *party, uint32_t slot);

/* In the place of each compare-and-swap of the daemon, see explore_steps.h. */
bool explore_daemon_step(_Atomic uint64_t *word, uint64_t *expected, uint64_t desired);

/* Ends the process: its memory is unmapped, its connection is closed. */
void party_die(struct party *party);

void queue_put(struct queue *queue, struct message message);
struct message queue_take(struct queue *queue);

static inline bool party_is_honest(const struct party *party)
{
        return !party->lies;
}

/* Whether a client of the tenant lies. */
bool tenant_lies(uint32_t uid);

#define BREAK_IF(condition, text)                  \
        do {                                       \
                if ((condition) && !world->broken) \
                        world->broken = (text);    \
        } while (0)
