/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: streams whose operations become nodes of a graph and are not run.
 *
 * Life: a capture is counted, since events that were recorded in it may be queried after its end. While it lasts it
 * holds a count of each stream that is part of it, and owns the graph.
 *
 * The emulator's lock guards all of it; the caller of a function holds it, unless the function says otherwise. What a
 * thread may do meanwhile depends on its own capture mode. */
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

/* Ends the stream's capture, valid or not; after any result but success the graph is destroyed. */
CUresult capture_end(struct stream *stream, struct graph **ret_graph, struct user_list *dead);

/* The stream is about to be closed: its capture ends, or goes on without it. */
void capture_forget(struct stream *stream, struct user_list *dead);

/* A thread is about to begin or end a capture in the stream. What another thread enqueues there before that is done
 * ends the process, and so do most questions. Takes the lock, and sleeps for a moment without it, so that others have
 * the time to err. */
void capture_change(struct stream *stream);

/* That is done. */
void capture_changed(struct stream *stream);

/* Work is about to be enqueued in the stream, or the stream to be asked something that a capture may change. */
void capture_check_changing(const struct stream *stream);

/* Makes the operation a node. Consumes it on success. */
CUresult capture_add(struct stream *stream, struct operation *take_operation);

/* capture_record gives an event's place at the end of the stream. capture_wait puts a stream behind such a place,
 * which makes it part of the capture. */
CUresult capture_record(struct stream *stream, struct capture_place *ret_place);
CUresult capture_wait(struct stream *stream, const struct capture_place *place);

void capture_place_clear(struct capture_place *place); /* needs no lock */

enum capture_state capture_state(const struct capture *capture);
CUstreamCaptureStatus capture_status(const struct stream *stream);
uint64_t capture_id(const struct capture *capture);
CUgraph capture_graph(const struct capture *capture);

/* Invalidates the capture because of a call that is not allowed; returns `result`. */
CUresult capture_spoil(struct capture *capture, CUresult result);

/* Invalidates every capture of the context's streams. CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: there is one. */
CUresult capture_spoil_context(struct context *context);

/* Called for a use of the default stream, which would depend on what blocking streams capture. If any do, invalidates
 * their captures: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT. */
CUresult capture_spoil_implicit(struct context *context);

/* Called for calls that a capture cannot see. If the calling thread's mode and the captures under way forbid them,
 * invalidates these: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. Takes the lock. */
CUresult capture_check_unsafe(void);

/* The entry of such a call: emulator_enter, then capture_check_unsafe. */
CUresult capture_enter_unsafe(const char *call);

/* Sets the calling thread's mode; returns the previous one. Needs no lock. */
CUstreamCaptureMode capture_exchange_mode(CUstreamCaptureMode mode);
