/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as the daemon sees them: cgroups with Docker's names. Needs root and a writable cgroup tree.
 * Failures end the test. */
#pragma once

#include <stdbool.h>

#define CONTAINER_SHORT_ID_BYTES 13

/* Those of v2, or those of v1 that systemd keeps. */
enum cgroup_tree { CGROUPS_OF_V2, CGROUPS_OF_V1, CGROUPS_N_TREES };

bool containers_can_be_made(enum cgroup_tree tree);

/* One of those where they can. */
bool containers_find_tree(enum cgroup_tree *ret_tree);

/* The n-th, of a few that no other test has. This process is in it from now on, and so is what it starts; what
 * it started before stays where it is. */
void container_enter(enum cgroup_tree tree, unsigned n);
void container_leave(enum cgroup_tree tree);

/* As gpumemctl calls the n-th. */
const char *container_short_id(unsigned n, char ret_id[static CONTAINER_SHORT_ID_BYTES]);

/* Removes everything that was made. No process may be in it any more. */
void containers_remove(enum cgroup_tree tree);
