/* SPDX-License-Identifier: Apache-2.0 */
/* The application's handles, as values and not as pointers: each is looked up before it is used, so that a stale or
 * invented one is found without a crash. The handle that was freed last is reused first, as by the real driver.
 *
 * The tables own nothing. The caller holds the emulator's lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum handle_kind {
        HANDLE_MEMORY,
        HANDLE_CONTEXT,
        HANDLE_STREAM,
        HANDLE_EVENT,
        HANDLE_GRAPH,
        HANDLE_EXECUTABLE,
        HANDLE_USER,
        HANDLE_N_KINDS
};

/* -ENOMEM. */
int handle_new(enum handle_kind kind, void *object, uintptr_t *ret_handle);

/* NULL: no such handle of this kind. */
void *handle_find(enum handle_kind kind, uintptr_t handle);

/* Was it a handle of this kind, and is it none now? */
bool handle_has_ended(enum handle_kind kind, uintptr_t handle);

/* A value is 0x1000 times (index + 1), and the kind: above CU_STREAM_LEGACY and its like. */
#define HANDLE_STEP UINT64_C(0x1000)

/* The index of a handle among its kind, from 0; UINT32_MAX: it cannot be one. Needs no lock. */
static inline uint32_t handle_index(enum handle_kind kind, uintptr_t handle)
{
        uintptr_t link = handle / HANDLE_STEP;

        if (handle % HANDLE_STEP != (unsigned)kind || !link || link > UINT32_MAX)
                return UINT32_MAX;
        return (uint32_t)(link - 1);
}

void handle_free(enum handle_kind kind, uintptr_t handle);
