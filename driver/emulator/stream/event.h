/* SPDX-License-Identifier: Apache-2.0 */
/* Events: each has the last of its recordings, recording.h. */
#pragma once

#include <cuda.h>

#include "driver/emulator/stream/stream.h"

/* Orders later submissions to the stream behind the event's recording. Takes the emulator's lock. */
CUresult event_order(CUevent handle, struct stream *stream);
