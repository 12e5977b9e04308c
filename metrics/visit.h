/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of gpumemd-exporter's, and how long it may take for what it is at. Pure.
 *
 * Whoever is slow has a place that others wait for: while all places are taken, a request has to be there
 * almost at once, and an answer be taken soon. Who had to wait for a place has sent its request meanwhile. */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

/* The time for a request to come, and for its answer to be taken. */
#define VISIT_READ_MS  1000
#define VISIT_WRITE_MS 5000

/* The same while all places are taken. */
#define VISIT_READ_HURRIED_MS  100
#define VISIT_WRITE_HURRIED_MS 500

enum visit_state {
        VISIT_READING, /* its request is not there as a whole */
        VISIT_WAITING, /* for the daemon; suspended */
        VISIT_SERVED,  /* the daemon has answered; so it is to be answered */
        VISIT_LEFT,    /* the daemon has not, in time */
        VISIT_WRITING, /* the answer is on its way */
        VISIT_CUT,     /* it took too long */
};

enum visit_places { VISIT_PLACES_FREE, VISIT_PLACES_TAKEN };

struct MHD_Connection;

struct visit {
        LIST_ENTRY(visit) link;
        struct MHD_Connection *connection;
        int fd;
        enum visit_state state;
        uint64_t since_ms; /* it reads, waits or writes */
};

/* When it has had its time; UINT64_MAX: never. `wait_ms`: so long one waits for the daemon. */
uint64_t visit_deadline_ms(const struct visit *visit, enum visit_places places, uint32_t wait_ms);
