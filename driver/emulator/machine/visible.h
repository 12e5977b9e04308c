/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices a process sees, and under which ordinals: CUDA_VISIBLE_DEVICES. Pure. */
#pragma once

#include <stdint.h>

#define VISIBLE_UUID_BYTES 16

/* The identity of a device: that of its directory, and its index. */
void visible_uuid(const uint8_t seed[static VISIBLE_UUID_BYTES], unsigned index,
                  uint8_t ret_uuid[static VISIBLE_UUID_BYTES]);

/* As NVML prints it: "GPU-" and 32 digits in groups. */
#define VISIBLE_UUID_TEXT_MAX 48
void visible_uuid_text(const uint8_t uuid[static VISIBLE_UUID_BYTES],
                       char ret_text[static VISIBLE_UUID_TEXT_MAX]);

/* `text` lists indexes, or prefixes of "GPU-" and a UUID; NULL means all. As with the real driver, the first entry
 * that names no device, or a device for the second time, ends the list. Fills in the indexes, and returns their
 * number. */
unsigned visible_devices(const char *text, const uint8_t seed[static VISIBLE_UUID_BYTES],
                         unsigned n_devices, unsigned *ret_indexes);
