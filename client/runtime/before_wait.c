/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/before_wait.h"

#include <stddef.h>

static _Thread_local struct before_wait *present;

void before_wait_set(struct before_wait *before)
{
        present = before;
}

void before_wait_begin(void)
{
        struct before_wait *before = present;

        if (!before)
                return;
        present = NULL;
        before->begin(before);
}
