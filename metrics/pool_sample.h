/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's labels: its id, its kind, and its GPU's UUID as nvidia-smi prints it, or its NUMA node. Pure. */
#pragma once

#include "base/uuid.h"
#include "metrics/lines.h"
#include "proto/messages.h"

/* Of a GPU, or of an instance of one. */
void pool_uuid(const struct pool_row *pool, char text[static UUID_TEXT_MAX]);

/* Begins a sample of the family with these labels; further labels may follow. */
void pool_sample(struct lines *lines, const struct pool_row *pool);
