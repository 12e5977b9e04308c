/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's labels: its id, its kind, and the UUID of its GPU, as nvidia-smi prints it, or its NUMA node. Pure. */
#pragma once

#include "metrics/lines.h"
#include "proto/proto.h"

/* "GPU-" and its 36 characters, as NVML writes it. */
#define POOL_UUID_MAX 41
void pool_uuid(const struct pool_row *pool, char text[static POOL_UUID_MAX]);

/* Begins a sample of the family with them; others may follow. */
void pool_sample(struct lines *lines, const struct pool_row *pool);
