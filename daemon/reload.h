/* SPDX-License-Identifier: Apache-2.0 */
/* What gpumemd was started with, and what it changes when it reads its configuration again.
 *
 * Command line and environment take precedence over the file. On the server's thread. */
#pragma once

#include "daemon/config/config.h"
#include "daemon/options.h"
#include "daemon/server/server.h"

extern const struct config_report config_report_stderr;

struct start {
        struct options options;
        struct config config; /* as read at the start, except for the limits */
        struct {
                struct config config;
                int result;
                bool again; /* another SIGHUP came meanwhile: the file may have changed since */
        } reading; /* the file is read by a thread of its own, since user names are looked up */
};

/* Reads the file and completes the options from it. 0 or -errno; every error has been printed on stderr. */
int start_init(struct start *start, const struct options *options);
void start_deinit(struct start *start);

/* For server_options: reads the file again. A file with an error changes nothing. */
void start_reload(struct server *server, void *start);
