/* SPDX-License-Identifier: Apache-2.0 */
/* Hides calls of later kernels from this process and from processes that it starts from now on: the calls
 * fail as on a kernel that lacks them. Failures end the test. */
#pragma once

#include <stdbool.h>

enum hidden {
        HIDE_PEERPIDFD = 1 << 0,  /* SO_PEERPIDFD, of Linux 6.5: ENOPROTOOPT */
        HIDE_PIDFD_OPEN = 1 << 1, /* pidfd_open, of Linux 5.3: ENOSYS */
        HIDE_PASSRIGHTS = 1 << 2, /* SO_PASSRIGHTS, of Linux 6.16: ENOPROTOOPT */
};

void old_kernel_hide(unsigned hidden);

/* Whether processes can be started in a pid namespace of their own. */
bool pid_namespaces_are_allowed(void);

/* Processes that this one starts from now on are in a new pid namespace. When the first of them ends, so do
 * all others. */
void enter_pid_namespace(void);
