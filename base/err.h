/* SPDX-License-Identifier: Apache-2.0 */
/* How functions answer and how they let go of things.
 *
 * 0 is success; negative is -errno, a fault that is passed on unchanged; positive is an outcome (GPUMEM_E_*) that the
 * caller handles. Outputs are named ret_*, come last, and are untouched unless 0 is returned. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Runs `function(&variable)` when the variable goes out of scope. */
#define CLEANUP(function) __attribute__((cleanup(function), unused))

/* Kept out of the code, and of the stack frame, of a caller that mostly does without it; COLD: of all that run at all
 * often. */
#define NOINLINE __attribute__((noinline))
#define COLD     __attribute__((cold, noinline))

/* All that it calls is in its body, but what is COLD or NOINLINE: for what each allocation runs through. */
#define FLAT __attribute__((flatten, hot))

/* One body, of which each caller gets what its constants leave. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Of a number: the set that holds it alone, as tables of legal arrows have them. */
#define BIT(number) (1u << (number))

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define PRINTF_LIKE(format_index, first_index) \
        __attribute__((format(printf, format_index, first_index)))

/* The object that embeds `member`, from a pointer to that member. */
#define CONTAINER_OF(pointer, type, member) \
        ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* For a call that left errno set: never 0, so that a fault is never taken for success. */
static inline int err_errno(void)
{
        int r = -errno;

        return r < 0 ? r : -EIO;
}

/* An outcome that the caller did not expect from this call is a bug; make a fault of it. */
static inline int err_fold(int r)
{
        return r > 0 ? -ENOTRECOVERABLE : r;
}

/* Hands a pointer over: the variable that a CLEANUP guards becomes NULL. */
#define steal_ptr(pointer)                               \
        __extension__({                                  \
                __typeof__(pointer) stolen_ = (pointer); \
                (pointer) = NULL;                        \
                stolen_;                                 \
        })

static inline int steal_fd(int *fd)
{
        int stolen = *fd;

        *fd = -1;
        return stolen;
}

static inline void freep(void *pointer_to_pointer)
{
        free(*(void **)pointer_to_pointer);
}
