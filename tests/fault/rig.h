/* SPDX-License-Identifier: Apache-2.0 */
/* What tests have in common that make calls fail: the page, the library that is preloaded, and which call
 * it is. GPUMEM_TEST_FAULTS=all: each of them is to fail; else some, by GPUMEM_TEST_SEED. */
#pragma once

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/fault/page.h"

/* A call of the driver's: it fails by what the emulated driver is told. */
#define RIG_DRIVER FAULT_N_CALLS

struct fault {
        enum fault_role role;
        unsigned call; /* RIG_DRIVER, or an enum fault_call */
        uint32_t nth;
        unsigned result; /* a driver's; of other calls 1 is their other error */
};

/* In how many ways a call that is none of the driver's fails. */
static inline uint32_t rig_n_ways(unsigned call)
{
        return call > FAULT_OPEN ? 2 : 1;
}

/* The fault of that number, of all these calls of the kinds from 0 on. */
static inline void rig_number(struct fault *fault, const uint32_t *n_calls, uint32_t number)
{
        for (fault->call = 0; number >= n_calls[fault->call] * rig_n_ways(fault->call);
             fault->call++)
                number -= n_calls[fault->call] * rig_n_ways(fault->call);
        fault->nth = 1 + number / rig_n_ways(fault->call);
        fault->result = number % rig_n_ways(fault->call);
}

extern struct fault_page *rig_page;
extern void (*rig_become)(enum fault_role role);
extern uint64_t rig_seed;
extern const char *const rig_role_names[];
extern const char *const rig_call_names[];

/* Resets the counts; that call fails, unless it is one of the driver's. */
void rig_arm(const struct fault *fault);
void rig_disarm(void);

bool rig_is_all(void);

/* Runs the suite in a process that has the library; the exit status. */
int rig_run(Suite *suite, char **arguments);
