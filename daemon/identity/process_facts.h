/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process that need not be connected. Reading it takes locks of the kernel's, so not on the loop. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/identity/cgroup.h"

#define PROCESS_PROGRAM_MAX 16

struct process_facts {
        bool is_there; /* else all other fields are 0 */
        uid_t uid;
        int container_fault;               /* why `container` is unknown: a negative errno; or 0 */
        char container[CGROUP_PATH_MAX];   /* "": none */
        char program[PROCESS_PROGRAM_MAX]; /* "?": unknown */
};

void process_facts_read(pid_t pid, struct process_facts *ret_facts);
