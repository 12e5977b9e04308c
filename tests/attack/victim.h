/* SPDX-License-Identifier: Apache-2.0 */
/* What others see of an attack: three processes that ask now and then, and how much CPU time the daemon's loop spends
 * between a question and its answer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The first; the second is that of another user, so that neither waits for what the other has used. */
#define VICTIM_UID         65001
#define VICTIM_OF_CONNECTS 65005

enum victim_question {
        VICTIM_LEASES,      /* a cached block of 2 MiB, leased and given back, by VICTIM_UID */
        VICTIM_CONNECTS,    /* a new connection of VICTIM_OF_CONNECTS, up to WELCOME */
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

/* Starts them at rest, each with a connection. After each question they pause until the loop has worked for so long, or has
 * had ten times as long for it: where many users share the loop, one that asks all the time asks for more than its share,
 * and waits for others rightly. Aborts on failure. Needs root, and an open loop_time. */
struct victims *victims_start(uint64_t pause_ns);

/* Returns when each has finished its question of the phase before; false: one has no answer yet, after `seconds`. Its
 * question counts with the loop's time until then. */
bool victims_enter(struct victims *victims, enum victim_phase phase, unsigned seconds);

/* When the phase is over. */
struct victim_times victims_times(struct victims *victims, enum victim_phase phase,
                                  enum victim_question question);

/* What the last question failed with; 0: none has. */
int victims_last_error(const struct victims *victims, enum victim_question question);

void victims_end(struct victims *victims);
