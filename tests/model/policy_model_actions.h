/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of the several kinds of actions share. */
#pragma once

#include "tests/model/policy_model.h"

/* Whom and what an action names. */
struct model_client *model_client_of(const struct model *model, const struct action *action);
struct model_request *model_request_of(const struct model *model, const struct action *action);
struct model_block *model_block_of(const struct model *model, const struct action *action);

/* Not for what others do. */
bool model_is_refused_for_what_it_is(const struct action *action);

bool model_maps(const struct model_client *client, const struct model_block *block);

/* Room goes to requests in their turn; what does not fit may be bypassed by smaller ones, some times, and by
 * all while its tenant holds up no other. */
void model_check_turn(struct model *model, const struct model_request *request);

/* The block is released on an errand: that is what it is for. */
void model_check_errand(struct model *model, const struct model_block *block);

/* All who hold something in the pool wait for more, this one among them. */
void model_check_deadlock(struct model *model, const struct model_request *request, int outcome);

void model_take_grant(struct model *model, const struct action *action);
void model_take_refusal(struct model *model, const struct action *action);
