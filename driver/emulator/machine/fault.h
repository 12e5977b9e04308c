/* SPDX-License-Identifier: Apache-2.0 */
/* The faults that are in force in this process: those of GPUMEM_EMULATOR, or, while the machine's directory has a file
 * "faults", those that it lists for it, one a line as fault_rules.h says, and no others.
 *
 * The file is for tests: they make the driver of a daemon that runs fail, or hang, and recover. It is read again when
 * it was changed, and what hung goes on then; so it is best replaced by a rename, and never half written. Who looks at
 * it are all calls but the hottest, which keep to what is known.
 *
 * Any thread. A lock of its own, under which no other is taken. */
#pragma once

#include <cuda.h>

#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/fault_rules.h"

/* Once, before any call; the directory's fd stays the caller's, and open. -EINVAL: a rule names a call that there is
 * not, and `ret_reason` says which. */
int fault_init(const struct fault_rules *rules, int directory_fd,
               char ret_reason[CONFIG_REASON_MAX]);

/* Reads the file if it has changed. */
void fault_look(void);

/* The call's faults: waits, and gives the result that it is to have. */
CUresult fault_apply(const char *call);

extern unsigned fault_n_armed; /* rules in force; atomic */

static inline int fault_is_armed(void)
{
        return __builtin_expect(__atomic_load_n(&fault_n_armed, __ATOMIC_RELAXED) != 0, 0);
}
