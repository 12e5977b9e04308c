/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/proc_stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Fields after the name, counted from the state. */
#define START_FIELD 20

int proc_stat_start(const char *stat, uint64_t *ret_ticks)
{
        const char *at = strrchr(stat, ')');
        char *end;
        uint64_t ticks;

        for (unsigned i = 0; at && i < START_FIELD; i++)
                at = strchr(at + 1, ' ');
        if (!at || at[1] < '0' || at[1] > '9')
                return -EPROTO;
        ticks = strtoull(at + 1, &end, 10);
        if (*end != ' ')
                return -EPROTO;
        *ret_ticks = ticks;
        return 0;
}
