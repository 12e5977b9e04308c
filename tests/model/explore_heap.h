/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a world that is explored: what is allocated between explore_heap_enter and
 * explore_heap_leave lies in one place, which can be copied and put back as a whole, pointers and all.
 * The calls that give memory are wrapped for that; outside they are the system's. One thread. */
#pragma once

#include <stddef.h>

/* Nothing is allocated any more. */
void explore_heap_clear(void);

void explore_heap_enter(void);
void explore_heap_leave(void);

/* Copies all that is allocated; there is one copy for each index. */
enum explore_copy { COPY_FIRST, COPY_STATE, N_COPIES };
void explore_heap_save(enum explore_copy copy);
void explore_heap_restore(enum explore_copy copy);
