/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

int text_read(const char *path, char ret_text[static TEXT_BYTES])
{
        CLEANUP(closep)
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t length = 0;
        ssize_t n = 1;

        if (fd < 0)
                return err_errno();
        while (n > 0 && length < TEXT_BYTES - 1) {
                n = read(fd, ret_text + length, TEXT_BYTES - 1 - length);
                if (n < 0)
                        return err_errno();
                length += (size_t)n;
        }
        ret_text[length] = '\0';
        return 0;
}

uint64_t text_figure(const char *text, const char *key)
{
        size_t length = strlen(key);

        for (const char *at = strstr(text, key); at; at = strstr(at + 1, key)) {
                bool begins = at == text || at[-1] == ' ' || at[-1] == '\n';

                if (begins && (at[length] == ':' || at[length] == ' '))
                        return strtoull(at + length + 1, NULL, 10);
        }
        return 0;
}
