/* SPDX-License-Identifier: Apache-2.0 */
/* What may be done that is no client's own matter. */
#pragma once

#include "tests/model/policy_play.h"

void deed_release_all(struct play *play);
void deed_reclaim(struct play *play);
void deed_prewarm(struct play *play);
void deed_change_keep(struct play *play);
void deed_age(struct play *play);
void deed_drain_idle(struct play *play);
void deed_mark_unusable(struct play *play);
void deed_retry(struct play *play);
void deed_change_strangers(struct play *play);
void deed_change_limit(struct play *play);
void deed_change_pool(struct play *play);
void deed_change_driver_status(struct play *play);
