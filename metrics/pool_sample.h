/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's labels: its id, its kind, and its GPU's UUID as nvidia-smi prints it, or its NUMA node. Pure. */
#pragma once

#include "metrics/lines.h"
#include "proto/messages.h"

/* "GPU-" and its 36 characters, as NVML writes it. */
#define POOL_UUID_MAX 41
void pool_uuid(const struct pool_row *pool, char text[static POOL_UUID_MAX]);

/* Begins a sample of the family with these labels; further labels may follow. */
void pool_sample(struct lines *lines, const struct pool_row *pool);
