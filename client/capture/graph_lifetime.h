/* SPDX-License-Identifier: Apache-2.0 */
/* The lifetime of a capture's graphs: counts how many of the graphs that a heap serves still exist. The driver
 * reports the end of a graph at any time and on any thread. So its callback lowers a number and wakes the service
 * thread, and takes no lock. Both structs are counted, and live until their last reference is dropped. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/capture.h"

struct graph_wakeup;

/* Wakes the thread that polls the fd, which is duplicated; -1: wakes none. */
struct graph_wakeup *graph_wakeup_new(int fd);
struct graph_wakeup *graph_wakeup_unref(struct graph_wakeup *wakeup);

struct graph_lifetime;

/* A lifetime without graphs. NULL: out of memory. */
struct graph_lifetime *graph_lifetime_new(struct graph_wakeup *wakeup);
struct graph_lifetime *graph_lifetime_ref(struct graph_lifetime *lifetime);
struct graph_lifetime *graph_lifetime_unref(struct graph_lifetime *lifetime);

/* Adds the graph of a capture. */
int graph_lifetime_bind(struct graph_lifetime *lifetime, const struct cuda *cuda,
                        const struct capture *capture);

/* Are all graphs gone? */
bool graph_lifetime_is_gone(const struct graph_lifetime *lifetime);
