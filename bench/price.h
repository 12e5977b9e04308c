/* SPDX-License-Identifier: Apache-2.0 */
/* What leases and returns would cost on an H200, in microseconds: messages and driver calls. */
#pragma once

#include "bench/replay.h"

double price_of_lease(enum replay_memory memory, uint64_t n_bytes);
double price_of_return(uint64_t n_bytes);
