/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

static struct winsize ask(void)
{
        struct winsize size = {.ws_col = 0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
                size = (struct winsize){.ws_col = 0};
        return size;
}

unsigned screen_width(unsigned otherwise)
{
        unsigned n = ask().ws_col;

        return n ? n : otherwise;
}

unsigned screen_lines(unsigned otherwise)
{
        unsigned n = ask().ws_row;

        return n ? n : otherwise;
}
