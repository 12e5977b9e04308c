/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is started with: sockets, driver, settings, and what it tells of itself. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/backing/device/canary.h"
#include "daemon/server/core/settings.h"
#include "driver/cuda.h"

struct server;

/* Sockets that listen already, whose files are somebody else's; -1: none. */
struct server_sockets {
        int client;
        int admin;
};

#define SERVER_SOCKETS_NULL ((struct server_sockets){.client = -1, .admin = -1})

struct server_options {
        const char *socket_path; /* NULL: where proto/address.h says */
        gid_t group;             /* may connect; SOCKET_FILE_OWN_GROUP: the process's */
        const struct server_sockets *sockets; /* in place of these two, the server's from then on;
                                               * NULL: none */
        const struct cuda *cuda;              /* outlives the server */
        const enum canary_outcome *canaries;  /* of CANARY_DEVICES_MAX devices, by ordinal */
        const char *canary_library; /* the driver's, for further tries; NULL: there are none */
        const char *nvml_library;   /* NULL: devices are not watched */
        struct settings *settings;  /* the limits are taken out of it, the rest is read */
        /* SIGHUP came; NULL: it is ignored. On the loop. */
        void (*on_hangup)(struct server *server, void *argument);
        void *hangup_argument;
        /* Called on the loop every `alive_ms`; 0: never. */
        void (*on_alive)(void);
        uint64_t alive_ms;
        void (*on_stop)(void); /* a signal came: nobody new is served. May be NULL. On the loop. */
        /* It serves, and what is to be made before that is made. May be NULL. On the loop, once. */
        void (*on_ready)(void);
        /* What it is about, while that takes time: a short text without a newline. May be NULL. On the loop. */
        void (*on_status)(const char *status);
};
