/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the Python interpreter that adapters call. The library links to no Python: it looks them up in the
 * process. Any thread. */
#pragma once

#include "client/runtime/before_wait.h"

struct python {
        int (*is_initialized)(void);
        int (*holds_lock)(void);
        int (*lock)(void);
        void (*unlock)(int state);
        void *(*let_go)(void);
        void (*take_again)(void *thread);
        void (*ref)(void *object);
        void (*unref)(void *object);
        void *(*no_memory)(void);
        void *(*capsule_new)(void *pointer, const char *name, void (*end)(void *capsule));
        int (*capsule_is_valid)(void *capsule, const char *name);
        void *(*capsule_pointer)(void *capsule, const char *name);
};

/* NULL: the process has no Python. */
const struct python *python_find(void);

/* The GIL, which a framework holds while it calls here. It is released as soon as the call may wait, so that other
 * Python threads run meanwhile. */
struct python_lock {
        struct before_wait before; /* first member: python.c finds the struct by it */
        void *thread;              /* the state to restore; NULL: the GIL was not released */
};

void python_lock_lend(struct python_lock *lock);
void python_lock_take_again(struct python_lock *lock);
