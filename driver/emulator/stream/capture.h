/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: streams whose operations become nodes of a graph and are not run.
 *
 * Life: a capture is counted, since events that were recorded in it may be asked about after its end. While it lasts it
 * holds a count of each stream that is part of it, and owns the graph.
 *
 * The emulator's lock guards all of it, and every function here but those that say so wants it held. What a thread may
 * do meanwhile depends on its own capture mode. */
#pragma once

#include <cuda.h>
#include <stdint.h>

#include "driver/emulator/stream/graph.h"
#include "driver/emulator/stream/place.h"

struct context;
struct operation;
struct stream;

enum capture_state { CAPTURE_ACTIVE, CAPTURE_INVALIDATED, CAPTURE_ENDED };

CUresult capture_begin(struct stream *stream, CUstreamCaptureMode mode);

/* Ends the stream's capture, whatever became of it; anything but success has destroyed the graph. */
CUresult capture_end(struct stream *stream, struct graph **ret_graph, struct user_list *dead);

/* The stream is about to be closed: its capture ends, or goes on without it. */
void capture_forget(struct stream *stream, struct user_list *dead);

/* The operation becomes a node. Consumes it if it succeeds. */
CUresult capture_add(struct stream *stream, struct operation *take_operation);

/* An event's place at the end of the stream; and a stream behind such a place, which makes it part of the capture. */
CUresult capture_record(struct stream *stream, struct capture_place *ret_place);
CUresult capture_wait(struct stream *stream, const struct capture_place *place);

void capture_place_clear(struct capture_place *place); /* needs no lock */

enum capture_state capture_state(const struct capture *capture);
CUstreamCaptureStatus capture_status(const struct stream *stream);
uint64_t capture_id(const struct capture *capture);
CUgraph capture_graph(const struct capture *capture);

/* What is not allowed spoils the capture, and gives `result` back. */
CUresult capture_spoil(struct capture *capture, CUresult result);

/* Every capture that a stream of the context is part of. CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if there is one. */
CUresult capture_spoil_context(struct context *context);

/* Use of the default stream would depend on what blocking streams capture: that is CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
 * and spoils their captures. */
CUresult capture_spoil_implicit(struct context *context);

/* For calls that a capture cannot see: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where the calling thread's mode and the
 * captures under way forbid it, and these are spoilt. Takes the lock. */
CUresult capture_check_unsafe(void);

/* The way into such a call: emulator_enter, and then this. */
CUresult capture_enter_unsafe(const char *call);

/* The calling thread's mode; gives the one before. Needs no lock. */
CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode);
