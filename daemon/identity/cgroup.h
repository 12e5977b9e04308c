/* SPDX-License-Identifier: Apache-2.0 */
/* Which container a process runs in, by the text of its /proc/PID/cgroup. Pure.
 *
 * Known by the names that they give their cgroups: Docker, containerd, CRI-O and Kubernetes pods, podman, LXC,
 * Amazon ECS, systemd-nspawn and what else systemd-machined keeps, BuildKit, runc and crun by themselves, jobs of Slurm; of v2 and of
 * v1, with systemd or without. A container in a container is part of the outer one. Slices and services of
 * systemd are no containers; what is in neither, at a place that nobody knows, is one by itself. */
#pragma once

#include <stdbool.h>

/* With the 0 at the end. */
#define CGROUP_PATH_MAX 252
#define CGROUP_NAME_MAX 32

/* The container's own cgroup, which is no other one's on this machine; "" for none. -EPROTO: this is no
 * such text; -ENAMETOOLONG. */
int cgroup_find_container(const char *cgroups, char ret_path[static CGROUP_PATH_MAX]);

/* Whether that is meant by `text`: its name, as below, or a path in a file system that ends with its own. */
bool cgroup_container_is_called(const char *path, const char *text);

/* For people: what the runtime calls it, 12 digits of an id as Docker prints them; "" for "". */
void cgroup_container_name(const char *path, char ret_name[static CGROUP_NAME_MAX]);
