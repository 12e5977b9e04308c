/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the Python interpreter that adapters call. The library links to no Python: it looks them up in the
 * process. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/runtime/before_wait.h"

/* Python's PyMethodDef, and the function of one whose flags are METH_FASTCALL. */
typedef void *python_function(void *self, void *const *arguments, ptrdiff_t n_arguments);

struct python_method {
        const char *name;
        python_function *function;
        int flags;
        const char *documentation;
};

#define PYTHON_FASTCALL 0x80

struct python {
        int (*is_initialized)(void);
        int (*may_hold_lock)(void);
        void *(*own_state)(void);
        void *(*present_state)(void);
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
        void *(*function_new)(const struct python_method *method, void *self, void *module);
        unsigned long long (*number_read)(void *object);
        void *(*number_new)(long long number);
        void *(*pending)(void);
        void (*forget)(void);
        void (*raise)(void *type, const char *text);
        void *(*module_import)(const char *name);
        void *(*call)(void *object, const char *name, const char *format, ...);
        void **type_error; /* a variable of the interpreter */
};

/* NULL: the process has no Python. */
const struct python *python_find(void);

/* Does the calling thread have the GIL? No, too, where it runs a subinterpreter. */
bool python_holds_lock(const struct python *python);

/* The GIL, which a framework holds while it calls here. It is released as soon as the call may wait, so that other
 * Python threads run meanwhile. */
struct python_lock {
        struct before_wait before; /* first member: python.c finds the struct by it */
        void *thread;              /* the state to restore; NULL: the GIL was not released */
};

void python_lock_lend(struct python_lock *lock);
void python_lock_take_again(struct python_lock *lock);
