/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the driver knows: the application owns what it has registered, the emulator what it has allocated.
 * Host and device address are the same. Functions named _locked expect the emulator's lock. */
#pragma once

#include <cuda.h>
#include <stdbool.h>

#include "driver/emulator/memory/interval.h"

struct context;

enum host_origin { HOST_REGISTERED, HOST_ALLOCATED };

struct host_range {
        struct interval range;
        enum host_origin origin;
        unsigned flags;
        struct context *context;
};

struct host_range *host_find_locked(uint64_t address);

/* Is all of the range known, so that copies read it when they run? */
bool host_is_pinned(uint64_t address, uint64_t n_bytes);

/* Do they begin in one range and end in another one? */
bool host_is_divided(uint64_t address, uint64_t n_bytes);

void host_context_ended(const struct context *context);
