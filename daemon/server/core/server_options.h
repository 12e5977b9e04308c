/* SPDX-License-Identifier: Apache-2.0 */
/* What a server is started with: sockets, driver, settings, and what it tells of itself. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "daemon/backing/device/canary.h"
#include "daemon/server/core/settings.h"
#include "driver/cuda.h"

struct server;

/* Sockets that listen already; their files belong to the process that opened them (systemd). -1: none. */
struct server_sockets {
        int client;
        int admin;
};

#define SERVER_SOCKETS_NULL ((struct server_sockets){.client = -1, .admin = -1})

struct server_options {
        const char *socket_path; /* NULL: the default of proto/address.h */
        gid_t group;             /* may connect; SOCKET_FILE_OWN_GROUP: the process's */
        const struct server_sockets *sockets; /* replaces the two above; the server takes
                                                  the fds over; NULL: none */
        const struct cuda *cuda;              /* outlives the server */
        const enum canary_outcome *canaries;  /* of CANARY_DEVICES_MAX devices, by ordinal */
        const char *canary_library;     /* the CUDA library, to run canaries again; NULL: never */
        const char *nvml_library;       /* NULL: devices are not watched */
        const char *configuration_path; /* as requests name it; outlives the server; NULL: none */
        struct settings *settings; /* the server takes the limits out of it, and reads the rest */
        /* Called on the loop at SIGHUP. NULL: SIGHUP is ignored. */
        void (*on_hangup)(struct server *server, void *argument);
        void *hangup_argument;
        /* Called on the loop every `alive_ms`; 0: never. */
        void (*on_alive)(void);
        uint64_t alive_ms;
        void (*on_stop)(
                void); /* Called on the loop when a signal came: no new client is served. May be NULL. */
        /* Called on the loop, once, when the daemon serves and has prewarmed its pools. May be NULL. */
        void (*on_ready)(void);
        /* Called on the loop with a short text without a newline, while something takes long. May be NULL. */
        void (*on_status)(const char *status);
};
