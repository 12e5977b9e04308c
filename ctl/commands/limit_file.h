/* SPDX-License-Identifier: Apache-2.0 */
/* Limits in the daemon's configuration file, so that they hold after its next start and SIGHUP. One thread. */
#pragma once

#include "ctl/commands/limit_change.h"
#include "ctl/query/pool_stats.h"

struct json_t;
struct link;

/* The file that the daemon was started with, as it says. -ENOENT: it does not say; or as link_call. */
#define LIMIT_FILE_PATH_MAX 120
int limit_file_find(struct link *link, char ret_path[static LIMIT_FILE_PATH_MAX]);

/* Reads the file; one that is not there is empty. -EINVAL: it is no configuration; another -errno: it cannot be read.
 * `reason` says why, as FILE:LINE:COLUMN where that is known. */
#define LIMIT_FILE_REASON_MAX 512
int limit_file_read(const char *path, char reason[static LIMIT_FILE_REASON_MAX],
                    struct json_t **ret_root);

/* Puts a change in, and leaves all else as it is. A limit of a pool goes to the entry that names this pool, or to a new
 * one. -EINVAL: a value on the way there has another type; -ENOMEM; -ENODEV: there is no such pool. */
int limit_file_change(struct json_t *root, const struct limit_change *change,
                      const struct pool_stats *pools);

/* Whether each pool's entry has a max_bytes that gpumemd takes beside its other sizes. -EINVAL: one has not, and `reason`
 * says which, and what helps. */
int limit_file_check(const struct json_t *root, char reason[static LIMIT_FILE_REASON_MAX]);

/* Replaces the file, whose owner and mode stay. */
int limit_file_write(const char *path, const struct json_t *root);
