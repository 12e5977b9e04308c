/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the configuration that have files of their own. One thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/config/config_reader.h"
#include "daemon/server/core/settings.h"

/* config_limits.c: a uid or the name of a user; and the value of "limits". */
bool config_read_uid(struct reader *reader, const char *path, const json_t *json, uint32_t *uid);
void config_read_limits(struct reader *reader, const json_t *json, struct settings *settings);

/* config_pools.c: the value of "pools", and checks against other keys. */
void config_read_pools(struct reader *reader, const json_t *json, struct settings *settings);
void config_check_ipc(struct reader *reader, const struct settings *settings);

/* config_sockets.c: "group", and "each_user". */
void config_read_group(struct reader *reader, const json_t *json, gid_t *group);
void config_read_each_user(struct reader *reader, const json_t *json, struct user_rule *rule);
