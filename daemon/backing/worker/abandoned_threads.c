/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/worker/abandoned_threads.h"

#include <stdatomic.h>

#include "base/log.h"

static atomic_bool any;

void abandoned_threads_add(pthread_t thread, const char *why)
{
        pthread_detach(thread);
        atomic_store(&any, true);
        log_warning("%s", why);
}

bool abandoned_threads_any(void)
{
        return atomic_load(&any);
}
