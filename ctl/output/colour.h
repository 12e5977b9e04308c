/* SPDX-License-Identifier: Apache-2.0 */
/* Colours for people at a terminal, and for nobody else. One thread. */
#pragma once

#include <stdbool.h>

enum colour {
        COLOUR_NONE,
        COLOUR_LEASED,
        COLOUR_IDLE,
        COLOUR_CACHED,
        COLOUR_LINGERING,
        COLOUR_OTHERS,
        COLOUR_FREE,
};

/* Is standard output, as the process got it, a terminal that shows them, and does nobody forbid it
 * (NO_COLOR, which is set and not empty)? */
bool colour_is_wanted(void);

/* What begins the colour, and with COLOUR_NONE ends it; "" where they are not wanted. */
const char *colour_code(bool is_wanted, enum colour colour);
