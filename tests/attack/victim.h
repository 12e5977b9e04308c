/* SPDX-License-Identifier: Apache-2.0 */
/* What others see of an attack: three processes that ask now and then, and how much CPU time the daemon's loop spends
 * between a question and its answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define VICTIM_UID 65001

enum victim_question {
        VICTIM_LEASES,      /* a cached block of 2 MiB, leased and given back, by VICTIM_UID */
        VICTIM_CONNECTS,    /* a new connection of that user, up to WELCOME */
        VICTIM_ADMINISTERS, /* STATS over the admin socket */
        VICTIM_N_QUESTIONS,
};

const char *victim_question_name(enum victim_question question);

/* Samples are taken in these phases. */
enum victim_phase { VICTIM_UNLOADED, VICTIM_ATTACKED, VICTIM_N_PHASES, VICTIM_RESTS };

struct victim_times {
        unsigned n;
        unsigned n_errors;
        double p50_ms, p99_ms, max_ms;
};

struct victims;

/* Starts them at rest, each with a connection. Aborts on failure. Needs root, and an open loop_time. */
struct victims *victims_start(void);

/* Returns when each has finished its question of the phase before; false: one has no answer yet, after `seconds`. Its
 * question counts with the loop's time until then. */
bool victims_enter(struct victims *victims, enum victim_phase phase, unsigned seconds);

/* When the phase is over. */
struct victim_times victims_times(struct victims *victims, enum victim_phase phase,
                                  enum victim_question question);

/* What the last question failed with; 0: none has. */
int victims_last_error(const struct victims *victims, enum victim_question question);

void victims_end(struct victims *victims);
