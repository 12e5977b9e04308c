/* Handles that the application holds, as values and not as pointers: one is looked up before
 * anything is believed, so that a stale or invented one is found out without a crash. The handle
 * that was let go last is given out next, as the real driver does.
 *
 * The tables own nothing. The caller holds the emulator's lock. */
#pragma once

#include <stdint.h>

enum handle_kind {
        HANDLE_MEMORY,
        HANDLE_CONTEXT,
        HANDLE_STREAM,
        HANDLE_EVENT,
        HANDLE_GRAPH,
        HANDLE_EXECUTABLE,
        HANDLE_USER,
        _HANDLE_N
};

/* -ENOMEM. */
int handle_new(enum handle_kind kind, void *object, uintptr_t *ret_handle);

/* NULL: no such handle of this kind. */
void *handle_find(enum handle_kind kind, uintptr_t handle);

/* Which of its kind a handle is, from 0; UINT32_MAX for what cannot be one. Needs no lock. */
uint32_t handle_index(enum handle_kind kind, uintptr_t handle);

void handle_free(enum handle_kind kind, uintptr_t handle);
