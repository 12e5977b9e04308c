/* SPDX-License-Identifier: Apache-2.0 */
/* What the comparisons of a settled policy are made of. */
#pragma once

#include "tests/model/policy_model.h"

/* It was released, and a client maps it that must unmap it. */
bool model_is_expected(const struct model_block *block);

/* Since the queues were walked last nothing was released so long ago. */
bool model_is_timed_out(const struct model *model, const struct model_block *block);

void model_check_waiting(struct model *model);
/* Where everybody waits for everybody else, one of them does so no more. */
void model_check_no_deadlock(const struct model *model);
void model_check_evictions(struct model *model);
