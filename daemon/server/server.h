/* The daemon's server: one socket, one loop, the pools behind it.
 *
 * server_run owns the calling thread until SIGTERM or SIGINT. Everything but the pools' workers
 * runs on that thread. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

struct server;

enum pinned_backing {
        PINNED_MEMFD, /* shared memory that clients register with the driver */
        PINNED_VMM,   /* exportable memory of the driver */
};

struct server_options {
        const char *socket_path; /* NULL: where proto/address.h says */
        const struct cuda *cuda; /* outlives the server */
        uint64_t n_device_bytes; /* most for each device's pool; 0: the device's size */
        uint64_t n_pinned_bytes; /* most for each pinned pool; 0: a quarter of its node's memory */
        enum pinned_backing pinned_backing;
};

/* Makes the pools and the socket. Failures are logged with what to do about them. */
int server_new(const struct server_options *options, struct server **ret_server);

/* Serves until a signal ends it; 0 after an orderly end. */
int server_run(struct server *server);

/* NULL is legal; returns NULL. */
struct server *server_free(struct server *server);
