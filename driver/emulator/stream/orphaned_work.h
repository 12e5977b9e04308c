/* SPDX-License-Identifier: Apache-2.0 */
/* Orphaned work: that of a killed process, which goes on while a forked child of it lives. So it does on a GPU: the child
 * has the files of the device open, and the work is ended only when the last of them is closed.
 *
 * A child that is forked while work is queued gets a thread, which waits for the parent's end. It then does the work
 * that the parent had queued at the fork and left undone, as far as that needs memory only. A stream ends at the
 * first operation that needs the parent itself, such as a host function. */
#pragma once

#include <cuda.h>

/* Called once, by cuInit. */
CUresult orphaned_work_init(void);
