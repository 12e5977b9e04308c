/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of gpumemd. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "daemon/config/config.h"
#include "daemon/server/core/settings.h"
#include "daemon/server/transport/socket_file.h"

struct options {
        const char *socket_path;  /* NULL: default */
        const char *cuda_library; /* NULL: default */
        const char *nvml_library; /* NULL: default */
        gid_t group;              /* SOCKET_FILE_OWN_GROUP: default */
        uint64_t n_device_bytes;  /* 0: the device's size */
        uint64_t n_pinned_bytes;  /* 0: default */
        enum pinned_backing pinned_backing;
        enum log_level log_level;
        bool says_log_level; /* --log or GPUMEM_LOG was given */
        const char *config_path;
        bool config_is_optional; /* the default path, which need not exist */
        enum canary_wish canary;
        int canary_ordinal;     /* not negative: this process only runs the canary of this device */
        const char *check_path; /* --check-config: only check this file */
};

enum options_outcome {
        OPTIONS_RUN,   /* start the daemon */
        OPTIONS_DONE,  /* --help or --version has been answered */
        OPTIONS_WRONG, /* the error has been printed on stderr */
};

enum options_outcome options_parse(int argc, char **argv, struct options *ret_options);
