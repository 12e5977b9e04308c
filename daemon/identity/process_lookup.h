/* SPDX-License-Identifier: Apache-2.0 */
/* Looks up a process by its pid: what /proc says of it. peer.h finds the process that is connected. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
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

/* Of a process that need not be connected. Reading all this takes locks of the kernel's, so not on the loop. */
void process_lookup(pid_t pid, struct process_facts *ret_facts);

/* The container in which it runs now, and its start time in ticks since the boot. -EXDEV: /proc shows another pid
 * namespace. Or an error of reading it, of cgroup_find_container, or of proc_stat_start. */
int process_lookup_container(pid_t pid, char ret_path[static CGROUP_PATH_MAX]);
int process_lookup_start(pid_t pid, uint64_t *ret_ticks);
