/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/stream/graph.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "driver/emulator/machine/emulator.h"
#include "driver/emulator/machine/handle.h"
#include "driver/emulator/stream/stream.h"

CUresult nodes_add(struct nodes *nodes, struct node *node)
{
        struct node **items;

        for (unsigned i = 0; i < nodes->n; i++)
                if (nodes->items[i] == node)
                        return CUDA_SUCCESS;
        items = reallocarray(nodes->items, nodes->n + 1, sizeof(struct node *));
        if (!items)
                return CUDA_ERROR_OUT_OF_MEMORY;
        items[nodes->n++] = node;
        nodes->items = items;
        return CUDA_SUCCESS;
}

CUresult nodes_add_all(struct nodes *nodes, const struct nodes *more)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned i = 0; r == CUDA_SUCCESS && i < more->n; i++)
                r = nodes_add(nodes, more->items[i]);
        return r;
}

void nodes_clear(struct nodes *nodes)
{
        free(nodes->items);
        *nodes = (struct nodes){0};
}

static struct plan *plan_ref(struct plan *plan)
{
        (void)__atomic_add_fetch(&plan->refs, 1, __ATOMIC_RELAXED);
        return plan;
}

static void free_nodes(struct nodes *nodes)
{
        for (unsigned i = 0; i < nodes->n; i++) {
                struct node *node = nodes->items[i];

                operation_free(node->operation);
                nodes_clear(&node->before);
                free(node);
        }
}

/* The nodes are those of the first of its origins. */
struct plan *plan_unref(struct plan *plan)
{
        while (plan && !__atomic_sub_fetch(&plan->refs, 1, __ATOMIC_ACQ_REL)) {
                struct plan *origin = plan->origin;

                if (!origin)
                        free_nodes(&plan->nodes);
                nodes_clear(&plan->nodes);
                free(plan);
                plan = origin;
        }
        return NULL;
}

static CUresult plan_new(struct plan **ret_plan)
{
        struct plan *plan = calloc(1, sizeof(*plan));

        if (!plan)
                return CUDA_ERROR_OUT_OF_MEMORY;
        plan->refs = 1;
        *ret_plan = plan;
        return CUDA_SUCCESS;
}

/* Copies the plan as it is now: if it grows, the copy does not. */
static CUresult plan_copy(struct plan *plan, struct plan **ret_copy)
{
        size_t n_bytes = plan->nodes.n * sizeof(struct node *);
        struct plan *copy;
        CUresult r = plan_new(&copy);

        if (r != CUDA_SUCCESS)
                return r;
        copy->nodes.items = malloc(n_bytes + 1);
        if (!copy->nodes.items) {
                (void)plan_unref(copy);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (n_bytes)
                memcpy(copy->nodes.items, plan->nodes.items, n_bytes);
        copy->nodes.n = plan->nodes.n;
        copy->origin = plan_ref(plan);
        *ret_copy = copy;
        return CUDA_SUCCESS;
}

/* Not nodes_add: the node is new, and there may be many. */
static CUresult plan_append(struct plan *plan, struct node *node)
{
        if (!(plan->nodes.n & (plan->nodes.n - 1))) {
                struct node **items = reallocarray(plan->nodes.items,
                                                   plan->nodes.n ? (size_t)plan->nodes.n * 2 : 1,
                                                   sizeof(struct node *));

                if (!items)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                plan->nodes.items = items;
        }
        node->index = plan->nodes.n;
        plan->nodes.items[plan->nodes.n++] = node;
        return CUDA_SUCCESS;
}

CUresult plan_add(struct plan *plan, struct operation *take_operation, struct context *context,
                  const struct nodes *before, struct node **ret_node)
{
        struct node *node = calloc(1, sizeof(*node));
        CUresult r;

        if (!node)
                return CUDA_ERROR_OUT_OF_MEMORY;
        node->context = context;
        r = nodes_add_all(&node->before, before);
        if (r == CUDA_SUCCESS)
                r = plan_append(plan, node);
        if (r != CUDA_SUCCESS) {
                nodes_clear(&node->before);
                free(node);
                return r;
        }
        node->operation = take_operation;
        *ret_node = node;
        return CUDA_SUCCESS;
}

/* A node comes after lower ones only, so one walk from the highest finds all that are reached. */
CUresult plan_ends_in(const struct plan *plan, const struct nodes *last, bool *ret_ends)
{
        bool *reached = calloc((size_t)plan->nodes.n + 1, sizeof(*reached));
        bool ends = true;

        if (!reached)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (unsigned i = 0; i < last->n; i++)
                reached[last->items[i]->index] = true;
        for (unsigned i = plan->nodes.n; ends && i > 0; i--) {
                const struct nodes *before = &plan->nodes.items[i - 1]->before;

                ends = reached[i - 1];
                for (unsigned j = 0; j < before->n; j++)
                        reached[before->items[j]->index] = true;
        }
        free(reached);
        *ret_ends = ends;
        return CUDA_SUCCESS;
}

CUresult graph_new(struct plan *plan, struct graph **ret_graph)
{
        struct graph *graph = calloc(1, sizeof(*graph));
        CUresult r = CUDA_SUCCESS;

        if (!graph)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (plan)
                graph->plan = plan_ref(plan);
        else
                r = plan_new(&graph->plan);
        if (r == CUDA_SUCCESS && handle_new(HANDLE_GRAPH, graph, &graph->handle)) {
                (void)plan_unref(graph->plan);
                r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (r == CUDA_SUCCESS)
                *ret_graph = graph;
        else
                free(graph);
        return r;
}

CUresult graph_plan(const struct graph *graph, struct plan **ret_plan)
{
        if (graph->state == GRAPH_CAPTURING)
                return plan_copy(graph->plan, ret_plan);
        *ret_plan = plan_ref(graph->plan);
        return CUDA_SUCCESS;
}

void graph_free(struct graph *graph, struct user_list *dead)
{
        handle_free(HANDLE_GRAPH, graph->handle);
        holdings_clear(&graph->holdings, dead);
        (void)plan_unref(graph->plan);
        free(graph);
}
