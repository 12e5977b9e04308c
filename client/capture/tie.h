/* Ties captures to their graphs: how many of the graphs that a heap serves are there still. The driver
 * says so at any time and from anywhere, so what it runs sets a number and wakes the service thread; it
 * takes no lock. The memory of both lives as long as either side. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/capture.h"

struct bell;

/* Rings whoever polls the fd, which is borrowed; -1: nobody. */
struct bell *bell_new(int fd);
struct bell *bell_unref(struct bell *bell);

struct tie;

/* Nothing is tied yet. NULL: no memory. */
struct tie *tie_new(struct bell *bell);
struct tie *tie_ref(struct tie *tie);
struct tie *tie_unref(struct tie *tie);

/* One more graph. */
int tie_bind(struct tie *tie, const struct cuda *cuda, const struct capture *capture);

/* None of the graphs is there. */
bool tie_is_gone(const struct tie *tie);
