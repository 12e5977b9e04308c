/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a process that was killed, which goes on while a forked child of it lives, as on a GPU: the
 * child has the files behind the device, and only when the last of them is closed is its work ended.
 *
 * A child that is forked while work is queued gets a thread that waits for the parent's end, and then does
 * what the parent had queued at the fork and left undone: what needs no more than memory. A stream ends at
 * the first piece that needs the parent itself, such as a host function. */
#pragma once

#include <cuda.h>

/* Once, by cuInit. */
CUresult afterlife_init(void);
