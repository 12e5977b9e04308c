/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a process sees, and under which ordinals: CUDA_VISIBLE_DEVICES. Pure. */
#pragma once

#include "base/uuid.h"

/* The identity of a device: that of its directory, and its index. */
void visible_uuid(const uint8_t seed[static UUID_BYTES], unsigned index,
                  uint8_t ret_uuid[static UUID_BYTES]);

/* `text` lists indexes, or prefixes of UUIDs as text; NULL means all. As with the real driver, the first entry
 * that names no device, or a device for the second time, ends the list. Fills in the indexes, and returns their
 * number. */
unsigned visible_devices(const char *text, enum uuid_kind kind,
                         const uint8_t seed[static UUID_BYTES], unsigned n_devices,
                         unsigned *ret_indexes);
