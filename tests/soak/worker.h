/* SPDX-License-Identifier: Apache-2.0 */
/* One of a few processes that together want more memory than exists. It allocates in several streams,
 * fills, lets other streams read, frees, checks, captures graphs and runs them again, flushes, and pauses.
 * A wrong byte or another failure ends the process with a line on stderr. One thread, besides the
 * library's. */
#pragma once

#include <stdint.h>

/* Works until SIGTERM, which it handles once the file `counts_path` exists. It keeps a line of counts
 * there. It may be killed at any time. `index` and `seed` determine its work. Once in a process. */
void worker_run(unsigned index, uint64_t seed, const char *counts_path);
