/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and reads device memory, for the code that checks it. A stream's calls are made in the stream's own context;
 * while the stream captures they return GPUMEM_E_UNSUPPORTED and do nothing. A thread whose calls could invalidate
 * captures calls capture_spare first (driver/capture.h). Any thread. */
#pragma once

#include <stdint.h>

#include "driver/cuda.h"

/* Fills in the stream's order; does not wait. */
int bytes_fill(const struct cuda *cuda, void *stream, uint64_t address, unsigned char byte,
               uint64_t n_bytes);

/* Waits for the stream. */
int bytes_read(const struct cuda *cuda, void *stream, uint64_t address, void *bytes,
               uint64_t n_bytes);

/* Makes a stream of that context, for a while. No other stream orders its work. bytes_end_stream waits for the work.
 * GPUMEM_E_NO_CONTEXT: the context has ended. */
int bytes_begin_stream(const struct cuda *cuda, uint64_t context, void **ret_stream);
int bytes_end_stream(const struct cuda *cuda, void *stream);
