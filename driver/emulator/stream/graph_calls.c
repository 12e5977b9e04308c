/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls on graphs and their executables. */
#include <cuda.h>
#include <stdlib.h>

#include "base/clock.h"
#include "driver/emulator/context/context.h"
#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/stream/capture.h"
#include "driver/emulator/stream/graph.h"
#include "driver/emulator/stream/lookup.h"
#include "driver/emulator/stream/submit.h"

#define POLL_US 20

/* None of them changes what an emulated launch does. */
#define INSTANTIATE_FLAGS                                  \
        (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | \
         CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |       \
         CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/* Counted: by its handle, and by every launch until it is over. */
struct executable {
        unsigned refs;
        enum { EXECUTABLE_NEW, EXECUTABLE_LAUNCHED } state;
        uintptr_t handle;
        struct plan *plan;
        struct holdings holdings;
        struct moment last; /* the end of its last launch: they do not overlap */
};

struct launch {
        struct operation operation;
        struct executable *executable;
        bool done[]; /* of each node */
};

/* Destructors that work on a stream held up run on a thread of the driver's. */
static void executable_unref(struct executable *executable)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);

        if (__atomic_sub_fetch(&executable->refs, 1, __ATOMIC_ACQ_REL))
                return;
        emulator_lock();
        holdings_clear(&executable->holdings, &dead);
        emulator_unlock();
        (void)plan_unref(executable->plan);
        moment_clear(&executable->last);
        if (executable->state == EXECUTABLE_LAUNCHED)
                user_destroy_later(&dead);
        else
                user_destroy(&dead);
        free(executable);
}

static bool is_ready(const struct launch *launch, const struct node *node)
{
        const struct operation_type *type = node->operation->type;

        if (launch->done[node->index])
                return false;
        for (unsigned i = 0; i < node->before.n; i++)
                if (!launch->done[node->before.items[i]->index])
                        return false;
        return !type->is_held || !type->is_held(node->operation, node->context);
}

/* Of all nodes that may run now, takes the one that was captured last. So an order that the program left to chance is
 * not the order of the capture. NULL: all wait for other work. */
static struct node *launch_next(const struct launch *launch)
{
        const struct nodes *nodes = &launch->executable->plan->nodes;

        for (unsigned i = nodes->n; i > 0; i--)
                if (is_ready(launch, nodes->items[i - 1]))
                        return nodes->items[i - 1];
        return NULL;
}

static CUresult node_run(const struct node *node)
{
        CUresult r = context_failure(node->context);

        if (r != CUDA_SUCCESS)
                return r;
        clock_sleep_us(emulator_get()->config.copy_delay_us);
        r = node->operation->type->run(node->operation, node->context);
        if (r != CUDA_SUCCESS)
                context_fail(node->context, r);
        return r;
}

static CUresult launch_run(struct operation *operation, struct context *context)
{
        struct launch *launch = (struct launch *)operation;
        unsigned n_left = launch->executable->plan->nodes.n;

        while (n_left) {
                const struct node *node = launch_next(launch);
                CUresult r = node ? node_run(node) : context_failure(context);

                if (r != CUDA_SUCCESS)
                        return r;
                if (node) {
                        launch->done[node->index] = true;
                        n_left--;
                } else {
                        clock_sleep_us(POLL_US);
                }
        }
        return CUDA_SUCCESS;
}

static void launch_free(struct operation *operation)
{
        executable_unref(((struct launch *)operation)->executable);
        free(operation);
}

static const struct operation_type launch_type = {.run = launch_run, .free = launch_free};

static CUresult clone_locked(const struct graph *graph, CUgraph *ret_handle)
{
        struct user_list none = SLIST_HEAD_INITIALIZER(none);
        struct graph *clone;
        struct plan *plan;
        CUresult r = graph_plan(graph, &plan);

        if (r != CUDA_SUCCESS)
                return r;
        r = graph_new(plan, &clone);
        (void)plan_unref(plan);
        if (r != CUDA_SUCCESS)
                return r;
        clone->state = GRAPH_COMPLETE;
        r = holdings_copy(&graph->holdings, &clone->holdings);
        if (r == CUDA_SUCCESS)
                *ret_handle = (CUgraph)clone->handle;
        else
                graph_free(clone, &none);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphClone(CUgraph *ret_handle, CUgraph handle)
{
        const struct graph *graph;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        graph = handle_find(HANDLE_GRAPH, (uintptr_t)handle);
        r = graph ? clone_locked(graph, ret_handle) : CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphDestroy(CUgraph handle)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct graph *graph;
        CUresult r = emulator_enter(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        graph = handle_find(HANDLE_GRAPH, (uintptr_t)handle);
        /* A graph that is being captured belongs to its capture. */
        if (graph && graph->state == GRAPH_COMPLETE)
                graph_free(graph, &dead);
        else
                r = CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        user_destroy(&dead);
        return r;
}

static CUresult executable_fill(struct executable *executable, const struct graph *graph)
{
        struct user_list none = SLIST_HEAD_INITIALIZER(none);
        CUresult r = graph_plan(graph, &executable->plan);

        if (r != CUDA_SUCCESS)
                return r;
        r = holdings_copy(&graph->holdings, &executable->holdings);
        if (r == CUDA_SUCCESS && handle_new(HANDLE_EXECUTABLE, executable, &executable->handle)) {
                holdings_clear(&executable->holdings, &none);
                r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (r != CUDA_SUCCESS)
                (void)plan_unref(executable->plan);
        return r;
}

static CUresult instantiate_locked(const struct graph *graph, CUgraphExec *ret_handle)
{
        struct executable *executable = calloc(1, sizeof(*executable));
        CUresult r;

        if (!executable)
                return CUDA_ERROR_OUT_OF_MEMORY;
        executable->refs = 1;
        r = executable_fill(executable, graph);
        if (r == CUDA_SUCCESS)
                *ret_handle = (CUgraphExec)executable->handle;
        else
                free(executable);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *ret_handle, CUgraph handle,
                                                 unsigned long long flags)
{
        const struct graph *graph;
        CUresult r = capture_enter_unsafe(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!ret_handle || flags & ~(unsigned long long)INSTANTIATE_FLAGS)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        graph = handle_find(HANDLE_GRAPH, (uintptr_t)handle);
        r = graph ? instantiate_locked(graph, ret_handle) : CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle)
{
        struct executable *executable;
        CUresult r = capture_enter_unsafe(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        executable = handle_find(HANDLE_EXECUTABLE, (uintptr_t)handle);
        handle_free(HANDLE_EXECUTABLE, (uintptr_t)handle);
        emulator_unlock();
        if (!executable)
                return CUDA_ERROR_INVALID_VALUE;
        executable_unref(executable);
        return CUDA_SUCCESS;
}

static CUresult launch_new(CUgraphExec handle, struct launch **ret_launch)
{
        struct executable *executable = handle_find(HANDLE_EXECUTABLE, (uintptr_t)handle);
        struct launch *launch;

        if (!executable)
                return CUDA_ERROR_INVALID_VALUE;
        launch = calloc(1, sizeof(*launch) + executable->plan->nodes.n * sizeof(launch->done[0]));
        if (!launch)
                return CUDA_ERROR_OUT_OF_MEMORY;
        launch->operation.type = &launch_type;
        launch->executable = executable;
        (void)__atomic_add_fetch(&executable->refs, 1, __ATOMIC_RELAXED);
        *ret_launch = launch;
        return CUDA_SUCCESS;
}

static CUresult launch_submit(struct launch *launch, struct stream *stream)
{
        struct executable *executable = launch->executable;
        struct moment end;
        CUresult r = CUDA_SUCCESS;

        if (stream->place.capture)
                return capture_spoil(stream->place.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        if (!moment_has_passed(&executable->last))
                r = operation_add_after(&launch->operation, moment_copy(&executable->last));
        if (r == CUDA_SUCCESS)
                r = stream_submit_locked(stream, &launch->operation, &end);
        if (r != CUDA_SUCCESS)
                return r;
        moment_clear(&executable->last);
        executable->last = end;
        executable->state = EXECUTABLE_LAUNCHED;
        return CUDA_SUCCESS;
}

EMULATOR_API CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
        struct launch *launch = NULL;
        struct stream *stream;
        CUresult r = emulator_enter(__func__);

        if (r == CUDA_SUCCESS)
                r = user_prepare_later();
        if (r == CUDA_SUCCESS)
                r = lookup_usable_stream(stream_handle, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        emulator_lock();
        r = launch_new(handle, &launch);
        if (r == CUDA_SUCCESS)
                r = launch_submit(launch, stream);
        emulator_unlock();
        if (r != CUDA_SUCCESS && launch)
                operation_free(&launch->operation);
        (void)stream_unref(stream);
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle,
                                                      unsigned int n_refs, unsigned int flags)
{
        struct user_object *object;
        struct graph *graph;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!user_is_count(n_refs) || flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        graph = handle_find(HANDLE_GRAPH, (uintptr_t)graph_handle);
        object = user_find(handle);
        r = graph && object ? holdings_add(&graph->holdings, object, n_refs)
                            : CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && !(flags & CU_GRAPH_USER_OBJECT_MOVE))
                user_ref(object, n_refs);
        emulator_unlock();
        return r;
}

EMULATOR_API CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle,
                                                       unsigned int n_refs)
{
        struct user_list dead = SLIST_HEAD_INITIALIZER(dead);
        struct user_object *object;
        struct graph *graph;
        CUresult r = emulator_enter_hot(__func__);

        if (r != CUDA_SUCCESS)
                return r;
        if (!user_is_count(n_refs))
                return CUDA_ERROR_INVALID_VALUE;
        emulator_lock();
        graph = handle_find(HANDLE_GRAPH, (uintptr_t)graph_handle);
        object = user_find(handle);
        if (graph && object)
                holdings_release(&graph->holdings, object, n_refs, &dead);
        else
                r = CUDA_ERROR_INVALID_VALUE;
        emulator_unlock();
        user_destroy(&dead);
        return r;
}
