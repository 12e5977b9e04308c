/* SPDX-License-Identifier: Apache-2.0 */
#include "client/adapters/python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* All are in the stable ABI, or in every version that the Python package supports. */
static const struct {
        const char *name;
        size_t offset;
} functions[] = {
        {"Py_IsInitialized", offsetof(struct python, is_initialized)},
        {"PyGILState_Check", offsetof(struct python, may_hold_lock)},
        {"PyGILState_GetThisThreadState", offsetof(struct python, own_state)},
        {"_PyThreadState_UncheckedGet", offsetof(struct python, present_state)},
        {"PyThreadState_GetUnchecked",
         offsetof(struct python, present_state)}, /* its name since 3.13 */
        {"PyGILState_Ensure", offsetof(struct python, lock)},
        {"PyGILState_Release", offsetof(struct python, unlock)},
        {"PyEval_SaveThread", offsetof(struct python, let_go)},
        {"PyEval_RestoreThread", offsetof(struct python, take_again)},
        {"Py_IncRef", offsetof(struct python, ref)},
        {"Py_DecRef", offsetof(struct python, unref)},
        {"PyErr_NoMemory", offsetof(struct python, no_memory)},
        {"PyCapsule_New", offsetof(struct python, capsule_new)},
        {"PyCapsule_IsValid", offsetof(struct python, capsule_is_valid)},
        {"PyCapsule_GetPointer", offsetof(struct python, capsule_pointer)},
        {"PyCFunction_NewEx", offsetof(struct python, function_new)},
        {"PyLong_AsUnsignedLongLong", offsetof(struct python, number_read)},
        {"PyLong_FromLongLong", offsetof(struct python, number_new)},
        {"PyErr_Occurred", offsetof(struct python, pending)},
        {"PyErr_Clear", offsetof(struct python, forget)},
        {"PyErr_SetString", offsetof(struct python, raise)},
        {"PyImport_ImportModule", offsetof(struct python, module_import)},
        {"PyObject_CallMethod", offsetof(struct python, call)},
        {"PyExc_TypeError", offsetof(struct python, type_error)},
};

static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;
static struct python python;
static atomic_bool is_filled;

/* The thread that had the lock is the parent's. */
static void after_fork_in_child(void)
{
        pthread_mutex_init(&filling, NULL);
}

/* As those of runtime/fork_guard.h. */
__attribute__((constructor)) static void watch_forks(void)
{
        (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}

static bool fill(void)
{
        for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
                void *found = dlsym(RTLD_DEFAULT, functions[i].name);

                if (found)
                        memcpy((char *)&python + functions[i].offset, &found, sizeof(found));
        }
        for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
                void *found;

                memcpy(&found, (char *)&python + functions[i].offset, sizeof(found));
                if (!found)
                        return false;
        }
        return true;
}

const struct python *python_find(void)
{
        if (!atomic_load_explicit(&is_filled, memory_order_acquire)) {
                pthread_mutex_lock(&filling);
                atomic_store(&is_filled, atomic_load(&is_filled) || fill());
                pthread_mutex_unlock(&filling);
        }
        return atomic_load_explicit(&is_filled, memory_order_acquire) ? &python : NULL;
}

/* Once there is a subinterpreter, PyGILState_Check() says yes in every thread. */
bool python_holds_lock(const struct python *found)
{
        const void *present = found->may_hold_lock() ? found->present_state() : NULL;

        return present && present == found->own_state();
}

static void let_go(struct before_wait *before)
{
        struct python_lock *lock = (struct python_lock *)before;
        const struct python *found = python_find();

        if (found && found->is_initialized() && python_holds_lock(found))
                lock->thread = found->let_go();
}

void python_lock_lend(struct python_lock *lock)
{
        *lock = (struct python_lock){.before = {.begin = let_go}};
        before_wait_set(&lock->before);
}

void python_lock_take_again(struct python_lock *lock)
{
        before_wait_set(NULL);
        if (lock->thread)
                python_find()->take_again(lock->thread);
}
