/* SPDX-License-Identifier: Apache-2.0 */
/* The lifetime of a capture's graphs: how many of the graphs that a heap serves are there still. The driver
 * says so at any time and from anywhere, so what it runs sets a number and wakes the service thread; it
 * takes no lock. The memory of both lives as long as either side. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/capture.h"

struct graph_wakeup;

/* Wakes the thread that polls the fd, which is borrowed; -1: none. */
struct graph_wakeup *graph_wakeup_new(int fd);
struct graph_wakeup *graph_wakeup_unref(struct graph_wakeup *wakeup);

struct graph_lifetime;

/* Of no graph yet. NULL: no memory. */
struct graph_lifetime *graph_lifetime_new(struct graph_wakeup *wakeup);
struct graph_lifetime *graph_lifetime_ref(struct graph_lifetime *lifetime);
struct graph_lifetime *graph_lifetime_unref(struct graph_lifetime *lifetime);

/* One more graph. */
int graph_lifetime_bind(struct graph_lifetime *lifetime, const struct cuda *cuda,
                        const struct capture *capture);

/* None of the graphs is there. */
bool graph_lifetime_is_gone(const struct graph_lifetime *lifetime);
