/* SPDX-License-Identifier: Apache-2.0 */
/* Protects captures that are under way. A driver call that the driver considers unsafe invalidates captures: any
 * thread's in GLOBAL mode, and the calling thread's own. A thread whose capture mode is RELAXED may make such calls.
 * Any thread, for itself. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"
#include "driver/stream.h"

/* The thread's previous mode; capture_spare_end restores it. */
struct capture_spared {
        const struct cuda *cuda; /* NULL: nothing to restore */
        int mode_before;
};

/* From here on the thread's calls invalidate no capture. `cuda` may be NULL. May be nested. */
struct capture_spared capture_spare(const struct cuda *cuda);
void capture_spare_end(struct capture_spared *spared);

/* A stream's capture: its number, which is not 0 and which no other capture of the process has; and its graph, which
 * exists until the capture ends, at least. */
struct capture {
        uint64_t number;
        void *graph;
};

/* Marks with this bit are of captures: a stream has another mark in each capture. */
#define CAPTURE_SCOPE (UINT64_C(1) << 63)

/* Call it if stream_look says that a stream is not supported. GPUMEM_E_UNSUPPORTED: it captures nothing, or its
 * capture was invalidated. */
int capture_look(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark,
                 struct capture *ret_capture);

/* As stream_identify, for a stream that captures. */
int capture_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                     int *ret_ordinal);

/* Gives the graph a user object. `gone` runs once: when the graph, its clones and its executables are gone and no
 * work of theirs runs any more; after a failure, at once. It runs inside the call that releases the last of them, or
 * on a thread of the driver, and must not call CUDA. */
int capture_tie(const struct cuda *cuda, const struct capture *capture, void (*gone)(void *),
                void *argument);
