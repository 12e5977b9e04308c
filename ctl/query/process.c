/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool process_is_stopped(uint32_t pid, uint32_t uid)
{
        char path[64], line[512];
        struct stat status;
        const char *state;
        FILE *file;
        size_t n;

        (void)snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
        if (stat(path, &status) || status.st_uid != uid)
                return false;
        (void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
        file = fopen(path, "re");
        if (!file)
                return false;
        n = fread(line, 1, sizeof(line) - 1, file);
        (void)fclose(file);
        line[n] = '\0';
        /* The name before it may have anything in it. */
        state = strrchr(line, ')');
        return state && state[1] == ' ' && (state[2] == 'T' || state[2] == 't');
}
