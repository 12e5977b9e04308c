/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the crowd that test_crowd starts on one daemon: the test's own program, run again with
 * CROWD_WORD and its task. It allocates, fills, checks and frees, and shares with the next process. One
 * thread. A failure ends the process with a line on stderr.
 *
 * Standard input is a socket to the test. Each side sends the word that the other waits for; a client sends
 * its counts with each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpumem.h"
#include "tests/live/client/crowd_memory.h"
#include "tests/random.h"

#define CROWD_WORD "crowd-client"

/* A wait of this length is a hang. */
#define CROWD_WAIT_MS 120000

/* Half a device's pool: one process of the crowd has it at a time, and leaves room for small allocations. */
#define CROWD_CRUSH_BYTES GIB

enum crowd_word {
        CROWD_READY, /* the client has connected and found its devices */
        CROWD_START,
        CROWD_CRUSHED, /* half-way it has asked for CROWD_CRUSH_BYTES without waiting, and keeps
                        * them, if it was not refused, until */
        CROWD_LET_GO,
        CROWD_RETURNED, /* it has freed all that it had, and is connected still */
        CROWD_LEAVE,
};

/* Counts of its work. The test demands some of each kind. */
#define CROWD_COUNTS(COUNT)                                               \
        COUNT(allocations, "allocations")                                 \
        COUNT(device, "of them device memory")                            \
        COUNT(pinned, "pinned with a context")                            \
        COUNT(unbound, "pinned without one")                              \
        COUNT(registered, "of these registered later")                    \
        COUNT(large, "of at least 16 MiB")                                \
        COUNT(refused, "refused at first, and given to those who waited") \
        COUNT(shared, "shared")                                           \
        COUNT(attached, "attached")                                       \
        COUNT(checked, "checked for their bytes")                         \
        COUNT(checked_bytes, "bytes of them looked at")                   \
        COUNT(freed_in_order, "freed in their stream")                    \
        COUNT(freed_elsewhere, "freed in another stream")                 \
        COUNT(freed_synchronized, "freed without a stream")               \
        COUNT(freed_busy, "freed with work on them still in the stream")  \
        COUNT(hits, "hits")                                               \
        COUNT(misses, "misses")

struct crowd_counts {
#define COUNT(name, text) uint64_t name;
        CROWD_COUNTS(COUNT)
#undef COUNT
};

struct crowd_news {
        enum crowd_word word;
        struct crowd_counts counts;
};

#define CROWD_DEVICES_MAX 2
#define CROWD_STREAMS     2 /* for each device */
#define CROWD_LANES_MAX   (CROWD_DEVICES_MAX * CROWD_STREAMS)
#define CROWD_LIVE_MAX    32

/* How the crowd shares: each process offers memory to the next, one allocation at a time. The next process
 * attaches it, compares its bytes, writes others and replies. The owner then compares, and frees while the
 * other one still has it attached. */
struct crowd_ring {
        int next_fd, last_fd; /* sockets to the neighbours */
        bool is_offering;
        struct crowd_memory offered;
        struct gpumem_token token;
        bool is_attached;
        struct crowd_memory attached;
        uint64_t attached_serial;
        bool last_has_ended;
};

struct crowd {
        unsigned index;
        uint64_t n_steps;
        uint64_t seed;
        struct test_random random;
        struct gpumem_client *client;
        struct crowd_lane lanes[CROWD_LANES_MAX];
        unsigned n_lanes;
        int32_t node; /* a node with pinned memory, or GPUMEM_NEAREST while none is known */
        uint64_t serial;
        struct crowd_memory live[CROWD_LIVE_MAX];
        unsigned n_live;
        uint64_t n_live_bytes;
        struct crowd_ring ring;
        struct crowd_counts counts;
};

/* The arguments after CROWD_WORD. */
enum crowd_argument {
        CROWD_ARG_INDEX,
        CROWD_ARG_STEPS,
        CROWD_ARG_DEVICES,
        CROWD_ARG_SEED,
        CROWD_ARG_NEXT_FD,
        CROWD_ARG_LAST_FD,
        CROWD_N_ARGS,
};

/* The exit status of the process. */
int crowd_client_main(char **arguments);

/* Ends the process. */
_Noreturn void crowd_fail(const struct crowd *crowd, const char *format, ...) PRINTF_LIKE(2, 3);

/* A number for the contents of the client's present allocation, unique in the crowd. */
uint64_t crowd_tag(const struct crowd *crowd);

/* `what` must have returned 0. */
void crowd_must(const struct crowd *crowd, int result, const char *what);
