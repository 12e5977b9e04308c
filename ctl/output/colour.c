/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool colour_is_wanted(void)
{
        const char *term = getenv("TERM"), *forbidden = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0 &&
               !(forbidden && *forbidden);
}

const char *colour_code(bool is_wanted, enum colour colour)
{
        static const char *const codes[] = {
                [COLOUR_NONE] = "\033[0m",       [COLOUR_LEASED] = "\033[32m",
                [COLOUR_IDLE] = "\033[33m",      [COLOUR_CACHED] = "\033[36m",
                [COLOUR_LINGERING] = "\033[31m", [COLOUR_OTHERS] = "\033[35m",
                [COLOUR_FREE] = "\033[2m",
        };

        return is_wanted ? codes[colour] : "";
}
