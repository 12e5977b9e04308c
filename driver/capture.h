/* SPDX-License-Identifier: Apache-2.0 */
/* Captures under way must survive what this process does meanwhile: calls that the driver takes for
 * unsafe, wherever they are made, end a capture in GLOBAL mode of any thread, and one of the thread's own.
 * A thread that has said RELAXED may make them. Any thread, for itself. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"
#include "driver/stream.h"

/* The thread's mode as it was; put back by capture_spare_end. */
struct capture_spared {
        const struct cuda *cuda; /* NULL: nothing is to be put back */
        int mode_before;
};

/* From here on the thread's calls spoil nobody's capture. `cuda` may be NULL. Legal within another one
 * that is ended later. */
struct capture_spared capture_spare(const struct cuda *cuda);
void capture_spare_end(struct capture_spared *spared);

/* A stream that captures: the capture's number, which no other capture of the process has, and not 0;
 * and its graph, which is one to the capture's end at least. */
struct capture {
        uint64_t number;
        void *graph;
};

/* Marks with that bit are of captures: a stream is another one in each of them. */
#define CAPTURE_SCOPE (UINT64_C(1) << 63)

/* For a stream of which stream_look says that it is not supported. GPUMEM_E_UNSUPPORTED: it captures
 * nothing, or nothing that can still become a graph. */
int capture_look(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark,
                 struct capture *ret_capture);

/* As stream_identify. */
int capture_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                     int *ret_ordinal);

/* From now on the graph has an object: `gone` runs once, when graph, clones and executables are gone and
 * no work of theirs runs any more; on failure at once. It runs inside of the call that lets go of the
 * last of them, or on a thread of the driver's, and may call no function of CUDA. */
int capture_tie(const struct cuda *cuda, const struct capture *capture, void (*gone)(void *),
                void *argument);
