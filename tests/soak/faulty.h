/* SPDX-License-Identifier: Apache-2.0 */
/* The library's calls in a program whose driver fails now and then: a call that the driver failed is
 * repeated, and memory that it did not give is refused. Without GPUMEM_SOAK_FAULTS every failure is passed
 * on. The linker replaces the library's calls with these. One thread. */
#pragma once

#include <stdint.h>

/* Number of driver failures so far. */
uint64_t faulty_count(void);
