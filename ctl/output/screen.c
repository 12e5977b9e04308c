/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/screen.h"

#include <langinfo.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.h"

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

void screen_clean(char *text, size_t n_bytes)
{
        bool is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;

        printable_copy(text, n_bytes, text, n_bytes, is_utf8 ? PRINTABLE_UTF8 : PRINTABLE_ASCII);
}
