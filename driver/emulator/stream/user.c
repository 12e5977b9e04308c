/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/user.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"

struct user_object {
        SLIST_ENTRY(user_object) link; /* among the dead */
        uintptr_t handle;
        uint64_t n_refs;
        CUhostFn destroy;
        void *argument;
};

struct holding {
        struct user_object *object;
        uint64_t n_refs;
};

/* The destructors that wait for the driver's thread. */
static struct {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        struct user_list dead;
        enum { LATER_NEVER, LATER_RUNS } state;
} later = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

bool user_is_count(unsigned count)
{
        return count && count <= INT_MAX;
}

struct user_object *user_find(CUuserObject handle)
{
        return handle_find(HANDLE_USER, (uintptr_t)handle);
}

void user_ref(struct user_object *object, uint64_t n_refs)
{
        object->n_refs += n_refs;
}

static void object_unref(struct user_object *object, uint64_t n_refs, struct user_list *dead)
{
        object->n_refs -= n_refs < object->n_refs ? n_refs : object->n_refs;
        if (object->n_refs)
                return;
        handle_free(HANDLE_USER, object->handle);
        SLIST_INSERT_HEAD(dead, object, link);
}

void user_destroy(struct user_list *dead)
{
        struct user_object *object;

        while ((object = SLIST_FIRST(dead))) {
                SLIST_REMOVE_HEAD(dead, link);
                emulator_mark_callback(EMULATOR_IN_CALLBACK);
                object->destroy(object->argument);
                emulator_mark_callback(EMULATOR_NO_CALLBACK);
                free(object);
        }
}

static void *later_main(void *argument)
{
        (void)argument;
        for (;;) {
                struct user_list dead;

                (void)pthread_mutex_lock(&later.mutex);
                while (SLIST_EMPTY(&later.dead))
                        (void)pthread_cond_wait(&later.changed, &later.mutex);
                dead = later.dead;
                SLIST_INIT(&later.dead);
                (void)pthread_mutex_unlock(&later.mutex);
                user_destroy(&dead);
        }
        return NULL;
}

CUresult user_prepare_later(void)
{
        CUresult r = CUDA_SUCCESS;

        (void)pthread_mutex_lock(&later.mutex);
        if (later.state == LATER_NEVER && emulator_start_thread(later_main, NULL))
                r = CUDA_ERROR_OUT_OF_MEMORY;
        else
                later.state = LATER_RUNS;
        (void)pthread_mutex_unlock(&later.mutex);
        return r;
}

void user_destroy_later(struct user_list *dead)
{
        struct user_object *object;

        (void)pthread_mutex_lock(&later.mutex);
        while ((object = SLIST_FIRST(dead))) {
                SLIST_REMOVE_HEAD(dead, link);
                SLIST_INSERT_HEAD(&later.dead, object, link);
        }
        (void)pthread_cond_signal(&later.changed);
        (void)pthread_mutex_unlock(&later.mutex);
}

static struct holding *holding_find(const struct holdings *holdings,
                                    const struct user_object *object)
{
        for (unsigned i = 0; i < holdings->n; i++)
                if (holdings->items[i].object == object)
                        return &holdings->items[i];
        return NULL;
}

CUresult holdings_add(struct holdings *holdings, struct user_object *object, uint64_t n_refs)
{
        struct holding *items, *held = holding_find(holdings, object);

        if (held) {
                held->n_refs += n_refs;
                return CUDA_SUCCESS;
        }
        items = reallocarray(holdings->items, holdings->n + 1, sizeof(*items));
        if (!items)
                return CUDA_ERROR_OUT_OF_MEMORY;
        items[holdings->n++] = (struct holding){.object = object, .n_refs = n_refs};
        holdings->items = items;
        return CUDA_SUCCESS;
}

CUresult holdings_copy(const struct holdings *holdings, struct holdings *ret_copy)
{
        struct holdings copy = {.n = holdings->n};

        copy.items = calloc(holdings->n + 1, sizeof(*copy.items));
        if (!copy.items)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (unsigned i = 0; i < copy.n; i++) {
                copy.items[i] = holdings->items[i];
                copy.items[i].object->n_refs += copy.items[i].n_refs;
        }
        *ret_copy = copy;
        return CUDA_SUCCESS;
}

void holdings_clear(struct holdings *holdings, struct user_list *dead)
{
        for (unsigned i = 0; i < holdings->n; i++)
                object_unref(holdings->items[i].object, holdings->items[i].n_refs, dead);
        free(holdings->items);
        *holdings = (struct holdings){0};
}

void holdings_release(struct holdings *holdings, struct user_object *object, uint64_t n_refs,
                      struct user_list *dead)
{
        struct holding *held = holding_find(holdings, object);

        if (!held)
                return;
        if (n_refs > held->n_refs)
                n_refs = held->n_refs;
        held->n_refs -= n_refs;
        if (!held->n_refs)
                *held = holdings->items[--holdings->n];
        object_unref(object, n_refs, dead);
}

EMULATOR_API CUresult CUDAAPI cuUserObjectCreate(CUuserObject *ret_handle, void *argument,
                                                 CUhostFn destroy, unsigned int n_refs,
                                                 unsigned int flags)
{
        struct user_object *object;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || !destroy || !user_is_count(n_refs) ||
            flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
                return CUDA_ERROR_INVALID_VALUE;
        object = calloc(1, sizeof(*object));
        if (!object)
                return CUDA_ERROR_OUT_OF_MEMORY;
        object->n_refs = n_refs;
        object->destroy = destroy;
        object->argument = argument;
        emulator_lock();
        if (handle_new(HANDLE_USER, object, &object->handle))
                r = CUDA_ERROR_OUT_OF_MEMORY;
        else
                *ret_handle = (CUuserObject)object->handle;
        emulator_unlock();
        if (r != CUDA_SUCCESS)
                free(object);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuUserObjectRetain(CUuserObject handle, unsigned int n_refs)
{
        struct user_object *object;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        object = user_find(handle);
        if (object && user_is_count(n_refs))
                user_ref(object, n_refs);
        else
                r = CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuUserObjectRelease(CUuserObject handle, unsigned int n_refs)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct user_object *object;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        object = user_find(handle);
        if (object && user_is_count(n_refs))
                object_unref(object, n_refs, &dead);
        else
                r = CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        user_destroy(&dead);
        return r;
}
