/* SPDX-License-Identifier: Apache-2.0 */
/* Captures what is enqueued in a stream, and runs it again. A context is current. Failures end the
 * test. */
#pragma once

#include <cuda.h>

#include "driver/cuda.h"

/* From <cuda.h>, of any version. The library does not use them, so they are not in its table. */
struct capturer {
        const struct cuda *cuda;
        __typeof__(cuStreamBeginCapture) *begin;
        __typeof__(cuStreamEndCapture) *end;
        __typeof__(cuGraphInstantiate) *instantiate;
        __typeof__(cuGraphLaunch) *launch;
        __typeof__(cuGraphDestroy) *destroy;
        __typeof__(cuGraphExecDestroy) *destroy_executable;
};

#define N_CAPTURE_MODES 3
extern const CUstreamCaptureMode capture_modes[N_CAPTURE_MODES];

void capturer_init(struct capturer *capturer, const struct cuda *cuda);

void capturer_begin(const struct capturer *capturer, CUstream stream, CUstreamCaptureMode mode);

/* The capture has succeeded. */
CUgraph capturer_end(const struct capturer *capturer, CUstream stream);

/* Launches the graph once in that stream, and waits for it. */
void capturer_replay(const struct capturer *capturer, CUgraph graph, CUstream stream);

void capturer_destroy(const struct capturer *capturer, CUgraph graph);
