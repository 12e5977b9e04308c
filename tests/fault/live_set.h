/* SPDX-License-Identifier: Apache-2.0 */
/* Which pieces of memory there are, by address. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

void live_set_clear(void);
/* False: there is no room, and it is not in the set. */
bool live_set_add(const void *piece);
/* False: it was not there. */
bool live_set_remove(const void *piece);
