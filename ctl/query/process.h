/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a client's process. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether it is stopped; false where that pid is not this user's process here. */
bool process_is_stopped(uint32_t pid, uint32_t uid);
