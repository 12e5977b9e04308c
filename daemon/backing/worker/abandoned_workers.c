/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/abandoned_workers.h"

#include <stdatomic.h>

static atomic_bool any;

void abandoned_workers_note(void)
{
        atomic_store(&any, true);
}

bool abandoned_workers_any(void)
{
        return atomic_load(&any);
}
