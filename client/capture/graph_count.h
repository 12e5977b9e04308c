/* SPDX-License-Identifier: Apache-2.0 */
/* Counts how many of the graphs that a heap serves still exist. The driver reports the end of a graph at any time and
 * on any thread. So its callback lowers a number and wakes the service thread, and takes no lock. Then
 * graph_memory_end_gone frees the memory. Both structs are counted, and live until their last reference is dropped.
 * Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/capture.h"

struct graph_wakeup;

/* Wakes the thread that polls the fd, which is duplicated; -1: wakes none. */
struct graph_wakeup *graph_wakeup_new(int fd);
struct graph_wakeup *graph_wakeup_unref(struct graph_wakeup *wakeup);

struct graph_count;

/* A count of none. NULL: out of memory. */
struct graph_count *graph_count_new(struct graph_wakeup *wakeup);
struct graph_count *graph_count_ref(struct graph_count *graphs);
struct graph_count *graph_count_unref(struct graph_count *graphs);

/* Adds the graph of a capture. */
int graph_count_bind(struct graph_count *graphs, const struct cuda *cuda,
                     const struct capture *capture);

/* Are all graphs gone? */
bool graph_count_is_gone(const struct graph_count *graphs);
