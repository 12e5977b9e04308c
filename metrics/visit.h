/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of gpumemd-exporter and its time limits. Pure.
 *
 * A slow client takes a place that others wait for. So while all places are taken, a client must send its
 * request almost at once, and read the response soon. A client that waited for its place has sent its
 * request meanwhile. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

/* Time limits to send a request, and to read its response. */
#define VISIT_READ_MS  1000
#define VISIT_WRITE_MS 5000

/* The same while all places are taken. */
#define VISIT_READ_HURRIED_MS  100
#define VISIT_WRITE_HURRIED_MS 500

enum visit_state {
        VISIT_READING, /* its request is incomplete */
        VISIT_WAITING, /* for the daemon; suspended */
        VISIT_SERVED,  /* the daemon has answered; the response is due */
        VISIT_LEFT,    /* the daemon has not answered in time */
        VISIT_WRITING, /* the response is being sent */
        VISIT_CUT,     /* it exceeded a time limit */
};

enum visit_places { VISIT_PLACES_FREE, VISIT_PLACES_TAKEN };

struct MHD_Connection;

struct visit {
        LIST_ENTRY(visit) link;
        struct MHD_Connection *connection;
        int fd;
        enum visit_state state;
        uint64_t since_ms; /* when the state began */
};

/* When the visit's time is over; UINT64_MAX: never. `wait_ms` limits the wait for the daemon. */
uint64_t visit_deadline_ms(const struct visit *visit, enum visit_places places, uint32_t wait_ms);
