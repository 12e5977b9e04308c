/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of the devices' default streams, in which most programs of frameworks work: a hit through a handle asks the
 * driver for the current context alone. A default stream lives as long as its context, so its handle is never closed.
 * Any thread. */
#pragma once

#include <stddef.h>

struct gpumem_stream;

/* The handle of `stream`, if that is the default stream of the current context and has one; else NULL. */
struct gpumem_stream *default_streams_find(int device, void *stream);

/* The same, whatever context is current. */
struct gpumem_stream *default_streams_of_device(int device);

/* Memory was allocated for the stream, not through a handle. Opens the handle of a default stream, once a device. */
void default_streams_note(int device, void *stream);
