/* SPDX-License-Identifier: Apache-2.0 */
/* One of a few processes that together want more memory than exists. It allocates in several streams,
 * fills, lets other streams read, frees, checks, captures graphs and runs them again, flushes, and pauses.
 * A wrong byte or another failure ends the process with a line on stderr. One thread, besides the
 * library's. */
#pragma once

#include <stdint.h>

/* Until SIGTERM, which it takes once the file `counts_path` is there, where it keeps a line of what it has
 * done; it may be killed at any time. `index` and `seed` say what it does. Once in a process. */
void worker_run(unsigned index, uint64_t seed, const char *counts_path);
