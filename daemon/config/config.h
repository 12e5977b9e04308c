/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: JSON, every key optional.
 *
 * All that is wrong with a file is reported, not only the first: syntax as FILE:LINE:COLUMN, values
 * as FILE: KEY.PATH: what is there and what is allowed. Unknown keys are wrong. One thread. */
#pragma once

#include <stdbool.h>

#include "base/log.h"
#include "daemon/server/core/settings.h"
#include "daemon/server/transport/socket_file.h"

#define CONFIG_DEFAULT_PATH "/etc/gpumemd/gpumemd.conf"

/* A gid, or the name of a group; -EINVAL for anything else. */
int group_parse(const char *text, gid_t *ret_group);

/* Whether a try at the start is to show that the driver clears memory. */
enum canary_wish { CANARY_NOT_SAID, CANARY_ON, CANARY_OFF };

/* "on" or "off"; -EINVAL for anything else. */
int canary_wish_parse(const char *text, enum canary_wish *ret_wish);

struct config {
        char *socket_path;  /* owned; NULL: not said */
        char *cuda_library; /* the same */
        char *nvml_library; /* the same */
        gid_t group;        /* SOCKET_FILE_OWN_GROUP: not said */
        enum canary_wish canary;
        bool says_log_level;
        enum log_level log_level;
        struct settings settings;
};

#define CONFIG_NULL ((struct config){.group = SOCKET_FILE_OWN_GROUP, .settings = SETTINGS_NULL})

void config_deinit(struct config *config);

/* Where each sentence about what is wrong goes. */
struct config_report {
        void (*print)(void *argument, const char *sentence);
        void *argument;
};

/* -EINVAL: the file is wrong; another -errno: it cannot be read. Both are reported. */
int config_load(const char *path, const struct config_report *report, struct config *ret_config);

/* The same of bytes that were read from there. */
int config_parse(const char *path, const char *bytes, size_t n_bytes,
                 const struct config_report *report, struct config *ret_config);
