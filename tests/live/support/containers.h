/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as the daemon sees them: cgroups with Docker's names. Needs root and a writable cgroup tree.
 * Failures abort. */
#pragma once

#include <stdbool.h>

#define CONTAINER_SHORT_ID_BYTES 13

/* Cgroups of v2, or the v1 hierarchy of systemd. */
enum cgroup_tree { CGROUPS_OF_V2, CGROUPS_OF_V1, CGROUPS_N_TREES };

bool containers_can_be_made(enum cgroup_tree tree);

/* The trees that can be used here. */
bool containers_find_tree(enum cgroup_tree *ret_tree);

/* Moves this process into the n-th container, of a few that no other test uses. Processes that it starts
 * later are in it, too; earlier ones are not. */
void container_enter(enum cgroup_tree tree, unsigned n);
void container_leave(enum cgroup_tree tree);

/* gpumemctl's name of the n-th container. */
const char *container_short_id(unsigned n, char ret_id[static CONTAINER_SHORT_ID_BYTES]);

/* Removes everything that was made. No process may be in it any more. */
void containers_remove(enum cgroup_tree tree);
