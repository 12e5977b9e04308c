/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that makes calls fail and those whose calls fail share: one page of a file, which
 * preload.c maps where GPUMEM_TEST_FAULT_PAGE names it.
 *
 * Calls count that the program itself makes; those of other libraries, and of the emulated driver, are
 * theirs. One call fails: the nth of its kind, of that role, since it was armed. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum fault_role { FAULT_NOBODY, FAULT_DAEMON, FAULT_CLIENT, FAULT_N_ROLES };

enum fault_call {
        FAULT_MEMORY, /* malloc and its kin */
        FAULT_FCNTL,
        FAULT_OPEN,
#define CALL(type, name, failure, error, other, parameters, arguments) FAULT_##name,
#include "tests/fault/calls.def"
#undef CALL
        FAULT_N_CALLS,
};

struct fault_page {
        _Atomic uint32_t armed; /* a role; its calls count, and one may fail */
        _Atomic uint32_t call;
        _Atomic uint32_t nth;      /* 0: none */
        _Atomic uint32_t is_other; /* with its other error */
        _Atomic uint32_t n_fired;
        _Atomic uint32_t n_calls[FAULT_N_ROLES][FAULT_N_CALLS]; /* while any role was armed */
        _Atomic int64_t n_live[FAULT_N_ROLES]; /* pieces of memory that the program asked for */
};

/* What libfault.so has for the program, by dlsym: `fault_page`, a pointer to the page, and this. The
 * process's calls are that role's from now on; what it has got so far is not counted. */
void fault_become(enum fault_role role);
