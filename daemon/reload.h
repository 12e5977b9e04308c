/* SPDX-License-Identifier: Apache-2.0 */
/* What gpumemd was started with, and what it takes over when its configuration is read again.
 *
 * Command line and environment go before the file. On the server's thread. */
#pragma once

#include "daemon/config/config.h"
#include "daemon/options.h"
#include "daemon/server/server.h"

extern const struct config_report config_report_stderr;

struct start {
        struct options options;
        struct config config; /* as it was at the start, but for the limits */
        struct {
                struct config config;
                int result;
                bool again; /* a signal came meanwhile: the file may have changed since */
        } reading;          /* of the file, on a thread of its own: names of users are looked up */
};

/* Reads the file, and completes the options from it. 0 or -errno; all that is wrong has been said on stderr. */
int start_init(struct start *start, const struct options *options);
void start_deinit(struct start *start);

/* For server_options: has the file read again; a wrong one changes nothing. */
void start_reload(struct server *server, void *start);
