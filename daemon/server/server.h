/* The daemon's server: one socket, one loop, the pools behind it.
 *
 * server_run owns the calling thread until SIGTERM or SIGINT. Everything but the pools' workers
 * runs on that thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/backing/device/canary.h"
#include "daemon/server/settings.h"
#include "daemon/server/socket_file.h"
#include "driver/cuda.h"

struct server;

/* Sockets that listen already, whose files are somebody else's; -1: none. */
struct server_sockets {
        int client;
        int admin;
};

#define SERVER_SOCKETS_NULL                \
        {                                  \
                .client = -1, .admin = -1, \
        }

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

/* Makes the pools and the socket. Failures are logged with what to do about them. */
int server_new(const struct server_options *options, struct server **ret_server);

/* Brings other settings into force: what is held beyond a new limit stays. The limits are taken out
 * of `settings`. */
int server_apply(struct server *server, struct settings *settings);

/* Serves until a signal ends it; 0 after an orderly end. */
int server_run(struct server *server);

/* Has `work` called on another thread, and `done` on the loop after that, also when the server ends
 * meanwhile: then before server_free returns. One at a time; -EBUSY. */
int server_do_aside(struct server *server, void (*work)(void *argument),
                    void (*done)(struct server *server, void *argument), void *argument);

/* It ends: nothing is to be changed any more. */
bool server_is_stopping(const struct server *server);

/* NULL is legal; returns NULL. Where the driver does not answer (worker_any_left) some of it stays, and
 * nothing but _exit() may follow. */
struct server *server_free(struct server *server);
