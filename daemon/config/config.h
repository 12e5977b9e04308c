/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: JSON, with all keys optional.
 *
 * Every error of a file is reported, not only the first: syntax errors as FILE:LINE:COLUMN, wrong values as
 * FILE: KEY.PATH: the value and what is expected. An unknown key is an error. One thread. */
#pragma once

#include <stdbool.h>

#include "base/log.h"
#include "daemon/server/core/settings.h"
#include "daemon/server/transport/socket_file.h"

#define CONFIG_DEFAULT_PATH "/etc/gpumemd/gpumemd.conf"

/* Parses a gid or the name of a group; -EINVAL for anything else. */
int group_parse(const char *text, gid_t *ret_group);

/* Whether the start checks that the driver clears memory. */
enum canary_wish { CANARY_NOT_SAID, CANARY_ON, CANARY_OFF };

/* "on" or "off"; -EINVAL for anything else. */
int canary_wish_parse(const char *text, enum canary_wish *ret_wish);

struct config {
        char *socket_path;  /* owned; NULL: not set */
        char *cuda_library; /* likewise */
        char *nvml_library; /* likewise */
        gid_t group;        /* SOCKET_FILE_OWN_GROUP: not set */
        enum canary_wish canary;
        bool says_log_level;
        enum log_level log_level;
        struct settings settings;
};

#define CONFIG_NULL ((struct config){.group = SOCKET_FILE_OWN_GROUP, .settings = SETTINGS_NULL})

void config_deinit(struct config *config);

/* Receives each error message. */
struct config_report {
        void (*print)(void *argument, const char *sentence);
        void *argument;
};

/* -EINVAL: the file has errors; another -errno: it cannot be read. Both are reported. */
int config_load(const char *path, const struct config_report *report, struct config *ret_config);

/* The same for bytes that were read from `path`. */
int config_parse(const char *path, const char *bytes, size_t n_bytes,
                 const struct config_report *report, struct config *ret_config);
