/* SPDX-License-Identifier: Apache-2.0 */
/* The machine below the daemon, played: devices and their driver, workers, NUMA nodes. A job is done when
 * machine_work says so, and fails when that says so. One daemon at a time; one thread. */
#pragma once

#include <stdint.h>

#define MACHINE_N_DEVICES 2
#define MACHINE_N_POOLS   3 /* the last one is pinned */

enum machine_work { WORK_DONE, WORK_FAILS, WORK_IS_FULL };

void machine_begin(void);

/* Does the next job of a pool; it does not fail where it cannot. */
void machine_work(unsigned pool, enum machine_work how);

unsigned machine_n_jobs(void);

/* What others than the daemon hold of a device. */
void machine_set_strangers(unsigned pool, uint64_t n_bytes);

/* Blocks of the pool look whole, or holed. */
void machine_punch(unsigned pool);

/* The driver does not answer, until the next job is done. */
void machine_hang(unsigned pool);

/* Another file that is nothing: the number is the caller's to close. */
int machine_file(void);

/* That there is nothing left of the daemon. */
void machine_end(void);
