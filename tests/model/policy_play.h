/* SPDX-License-Identifier: Apache-2.0 */
/* Random deeds of several clients of several tenants in several pools, with workers that take their time. */
#pragma once

#include "tests/model/policy_model.h"
#include "tests/model/policy_worker.h"
#include "tests/model/random.h"

/* What is done, and what clients ask for: in SHARING every second block can be shared, else every eighth; ENDING is for
 * a policy that drains. */
enum play_kind { PLAY_MIXED, PLAY_SHARING, PLAY_ENDING };

struct play {
        enum play_kind kind;
        struct model model;
        struct worker worker;
        struct random random;
};

uint64_t play_below(struct play *play, uint64_t n);
bool play_one_in(struct play *play, uint64_t n);

/* Takes an action, and gives the worker what is its; takes all that there are. */
enum action_kind play_take_one(struct play *play);
void play_settle(struct play *play);

/* NULL: there is none, or chance has it so. */
struct model_client *play_any_client(struct play *play);
struct model_client *play_any_speaker(struct play *play);
struct model_lease *play_any_lease(struct play *play);

void play_do_something(struct play *play);
void play_end_someone(struct play *play);
