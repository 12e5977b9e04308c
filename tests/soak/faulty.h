/* SPDX-License-Identifier: Apache-2.0 */
/* The library's calls as a program makes them whose driver fails now and then: what the driver did not
 * do is asked for once more, and memory that it did not give is refused. Where GPUMEM_SOAK_FAULTS is not set
 * every failure is passed on. The linker puts these in the place of the library's. One thread. */
#pragma once

#include <stdint.h>

/* Failures of the driver that were passed over. */
uint64_t faulty_count(void);
