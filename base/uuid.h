/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs of devices as text: "GPU-", or "MIG-" for an instance of a GPU that is cut into some, and 32 digits in groups.
 * So NVML, nvidia-smi and CUDA_VISIBLE_DEVICES have them. CUDA has the bytes alone. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define UUID_BYTES 16

/* Of "GPU-" and "MIG-". */
#define UUID_PREFIX_CHARS 4

/* With the NUL. */
#define UUID_TEXT_MAX 41

enum uuid_kind { UUID_OF_GPU, UUID_OF_MIG };

/* What the device is to which CUDA gives this name: that of an instance ends as in "NVIDIA H200 MIG 1g.18gb". */
enum uuid_kind uuid_kind_of(const char *device_name);

void uuid_print(enum uuid_kind kind, const uint8_t uuid[static UUID_BYTES],
                char text[static UUID_TEXT_MAX]);

/* Of either kind; digits may be capitals. False: it is no such text. */
bool uuid_parse(const char *text, uint8_t ret_uuid[static UUID_BYTES]);
