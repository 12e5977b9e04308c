/* Captures under way must survive what this process does meanwhile: calls that the driver takes for
 * unsafe, wherever they are made, end a capture in GLOBAL mode of any thread, and one of the thread's own.
 * A thread that has said RELAXED may make them. Any thread, for itself. */
#pragma once

#include "driver/cuda.h"

/* The thread's mode as it was; put back by capture_spare_end. */
struct capture_spared {
        const struct cuda *cuda; /* NULL: nothing is to be put back */
        int mode_before;
};

/* From here on the thread's calls spoil nobody's capture. `cuda` may be NULL. Legal within another one
 * that is ended later. */
struct capture_spared capture_spare(const struct cuda *cuda);
void capture_spare_end(struct capture_spared *spared);
