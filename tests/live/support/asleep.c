/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/asleep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

/* proc(5): "1234 (a name) S ..."; the name may contain any character. '\0': the process has gone. */
static char state_of(pid_t pid, const char *thread)
{
        CLEANUP(closep)
        int fd = -1;
        char path[128], text[256];
        const char *end;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%.32s/stat", (int)pid, thread);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n <= 0)
                return '\0';
        text[n] = '\0';
        end = strrchr(text, ')');
        return end && end[1] == ' ' ? end[2] : '\0';
}

bool process_sleeps(pid_t pid)
{
        const struct dirent *thread;
        bool all_sleep = true;
        char path[64];
        DIR *threads;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        threads = opendir(path);
        if (!threads)
                return false;
        while ((thread = readdir(threads))) {
                if (thread->d_name[0] != '.')
                        all_sleep = all_sleep && state_of(pid, thread->d_name) == 'S';
        }
        (void)closedir(threads);
        return all_sleep;
}
