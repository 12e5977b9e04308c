/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that go on until a person ends them by Ctrl-C, or a program by SIGTERM: both end in order. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* From now on. The second of them ends the process at once, though a call waits for the daemon. */
void interrupt_catch(void);

/* Whether one has come. */
bool interrupt_came(void);

/* Waits for that time of base/clock.h. False: one has come. */
bool interrupt_wait_until(uint64_t ms);
