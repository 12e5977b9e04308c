/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of device memory, for what fills and checks them. A stream's calls are made in the stream's own
 * context; while the stream captures they give GPUMEM_E_UNSUPPORTED and do nothing. A thread that would
 * spoil captures says RELAXED first (driver/capture.h). Any thread. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* In the stream's order; does not wait. */
int bytes_fill(const struct cuda *cuda, void *stream, uint64_t address, unsigned char byte,
               uint64_t n_bytes);

/* Waits for the stream. */
int bytes_read(const struct cuda *cuda, void *stream, uint64_t address, void *bytes,
               uint64_t n_bytes);

/* A stream of that context, for as long as the caller has something to do there. No other stream orders its
 * work. The end waits for the work. GPUMEM_E_NO_CONTEXT: the context has ended. */
int bytes_begin_stream(const struct cuda *cuda, uint64_t context, void **ret_stream);
int bytes_end_stream(const struct cuda *cuda, void *stream);
