/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: one primary for each device, made by the first retain, and any number of created ones.
 *
 * A context object lives as long as the process, so that a stale handle or a thread's stale current context never
 * dangles; ending one makes it inactive, and a primary one can become active again, under another id. The emulator's
 * lock guards the fields, but for the failure the two ids and the count that say so, which are atomic. What is current
 * belongs to the thread. */
#pragma once

#include <cuda.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/emulator/machine/store.h"

struct stream;
struct moment;

enum context_kind { CONTEXT_PRIMARY, CONTEXT_CREATED };
enum context_state { CONTEXT_INACTIVE, CONTEXT_ACTIVE };

struct context {
        enum context_kind kind;
        enum context_state state;
        uintptr_t handle;
        uint64_t id;        /* never reused */
        uint64_t live_id;   /* the id while it is active, else 0; atomic */
        uint64_t legacy_id; /* of `legacy`, 0 before its first use; atomic */
        unsigned device;
        unsigned n_capturing; /* blocking streams that are part of captures; atomic */
        unsigned flags;
        unsigned n_retained;
        CUresult failure;
        struct stream *legacy; /* the default stream; NULL before its first use */
        TAILQ_HEAD(, stream) streams;
        struct store_hold charge; /* what it costs on the device; fd -1: nothing */
        struct context *next;     /* in the list of all contexts */
};

/* The calling thread's context, if it has not ended. Needs no lock. */
CUresult context_current(struct context **ret_context);

/* The same, if it can be used: a context that has failed gives its failure. */
CUresult context_get(struct context **ret_context);

/* For calls that need no current context; if there is one, it must not have failed. */
CUresult context_check(void);

/* Marks the context as failed; the first failure stays. CUDA_ERROR_ILLEGAL_ADDRESS marks every context of the
 * process. */
void context_fail(struct context *context, CUresult failure);

static inline CUresult context_failure(const struct context *context)
{
        return __atomic_load_n(&context->failure, __ATOMIC_ACQUIRE);
}

CUcontext context_handle(const struct context *context);

/* Both with the emulator's lock held. A context gets its handle once; each of its lives begins with context_activate. */
CUresult context_setup(struct context *context, enum context_kind kind, unsigned device);
void context_activate(struct context *context, unsigned flags);
