/* Events: a recording is a moment in a stream's order, and when it was passed. */
#pragma once

#include <cuda.h>

#include "driver/emulator/stream.h"

/* Where the event was last recorded; the caller clears it. The stream is NULL if it never was.
 * Takes the emulator's lock. */
CUresult event_recorded(CUevent handle, struct moment *ret_moment);
