/* SPDX-License-Identifier: Apache-2.0 */
/* Submits work to a stream: it is captured, or queued behind what the rules of the default stream demand. */
#pragma once

#include <cuda.h>

#include "driver/emulator/stream/stream.h"

/* Queues the operation, behind what the rules of the default stream demand, or adds it to the stream's capture: its
 * moment has passed then. Consumes it, also on failure. `ret_moment` may be NULL. */
CUresult stream_submit(struct stream *stream, struct operation *take_operation,
                       struct moment *ret_moment);

/* The same with the emulator's lock held, and consuming the operation only if it succeeds. */
CUresult stream_submit_locked(struct stream *stream, struct operation *take_operation,
                              struct moment *ret_moment);

/* An operation that does nothing, for its place in the order: behind these moments, too. */
CUresult stream_submit_marker(struct stream *stream, const struct moment *after, unsigned n_after,
                              struct moment *ret_moment);
