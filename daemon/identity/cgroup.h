/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the container of a process in the text of its /proc/PID/cgroup. Pure.
 *
 * Containers are recognized by the names of their cgroups: Docker, containerd, CRI-O and Kubernetes pods,
 * podman, LXC, Amazon ECS, systemd-nspawn and other machines of systemd-machined, BuildKit, runc and crun
 * alone, jobs of Slurm; with cgroup v1 and v2, with systemd and without. A container in a container is part
 * of the outer one. Slices and services of systemd are not containers. An unknown path outside of these is
 * a container of its own. */
#pragma once

#include <stdbool.h>

/* Includes the terminating 0. */
#define CGROUP_PATH_MAX 252
#define CGROUP_NAME_MAX 32

/* The path of the container's cgroup, which is unique on this machine; "" if the process is in no
 * container. -EPROTO: not a valid cgroup text; -ENAMETOOLONG. */
int cgroup_find_container(const char *cgroups, char ret_path[static CGROUP_PATH_MAX]);

/* Whether `text` names that container: by its name, as below, or by a path in a file system that ends with
 * its path. */
bool cgroup_container_is_called(const char *path, const char *text);

/* A short name for messages: the runtime's name, with ids cut to 12 digits as Docker prints them; "" for
 * "". */
void cgroup_container_name(const char *path, char ret_name[static CGROUP_NAME_MAX]);
