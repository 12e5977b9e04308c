/* SPDX-License-Identifier: Apache-2.0 */
/* The faults in force in this process: those of GPUMEM_EMULATOR. While the machine's directory has a file "faults",
 * those that it lists for this process replace them, one a line, as fault_rules.h says.
 *
 * The file is for tests: they make the driver of a running daemon fail, or hang, and recover. It is read again when
 * it has changed, and calls that hung go on then; so a test replaces it by a rename, and never writes half of it. All
 * calls but the hottest look at the file; those use what is known. A look is a system call, which a real driver's call does
 * not make: with "fault_file=0" no call looks.
 *
 * Any thread. A lock of its own, under which no other is taken. */
#pragma once

#include <cuda.h>

#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/fault_rules.h"

/* Called once, before any call; the caller keeps the directory's fd, and keeps it open. -EINVAL: a rule names an
 * unknown call, which `ret_reason` tells. */
int fault_init(const struct config *config, int directory_fd, char ret_reason[CONFIG_REASON_MAX]);

/* Reads the file if it has changed. */
void fault_look(void);

/* Applies the call's faults: waits, and returns the call's result. */
CUresult fault_apply(const char *call);

extern unsigned fault_n_armed; /* rules in force; atomic */

static inline int fault_is_armed(void)
{
        return __builtin_expect(__atomic_load_n(&fault_n_armed, __ATOMIC_RELAXED) != 0, 0);
}
