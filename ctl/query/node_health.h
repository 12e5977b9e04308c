/* SPDX-License-Identifier: Apache-2.0 */
/* All that a daemon says of its memory, and what is wrong with it by the rules of health_rules.h. One thread. */
#pragma once

#include "ctl/query/event_rows.h"
#include "ctl/query/health_rules.h"
#include "ctl/query/node_state.h"

/* Memory lingers for long after so many seconds, unless a command is told otherwise. */
#define NODE_HEALTH_LINGERING_S 60

struct node_health {
        struct node_state node;
        struct event_rows events; /* the daemon's start and end, and memory that was not cleared */
        struct findings findings;
};

#define NODE_HEALTH_NULL ((struct node_health){.findings = {.n = 0}})

void node_health_deinit(struct node_health *health);

/* What was fetched before a failure is for node_health_deinit. */
int node_health_fetch(struct link *link, uint64_t lingering_ms, struct node_health *ret_health);

/* Prints a finding as one line: "unhealthy: pool 0 (H100): its driver ..." */
const char *finding_level_name(enum finding_level level);
void node_health_print(const struct node_health *health, const struct finding *finding);
