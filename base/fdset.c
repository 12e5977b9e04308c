/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fdset.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"

void closep(int *fd)
{
        int saved = errno;

        if (*fd >= 0)
                (void)close(*fd);
        *fd = -1;
        errno = saved;
}

int fdset_add(struct fdset *set, int take_fd)
{
        if (set->n == FDSET_MAX) {
                closep(&take_fd);
                return -E2BIG;
        }
        set->fds[set->n++] = take_fd;
        return 0;
}

int fdset_steal(struct fdset *set, unsigned index)
{
        int fd;

        if (index >= set->n)
                return -1;
        fd = set->fds[index];
        set->fds[index] = -1;
        return fd;
}

void fdset_deinit(struct fdset *set)
{
        for (unsigned i = 0; i < set->n; i++)
                closep(&set->fds[i]);
        set->n = 0;
}

int fds_fill_standard(void)
{
        int fd;

        /* The lowest number that is free is the next one's. */
        do {
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        return err_errno();
        } while (fd <= STDERR_FILENO);
        closep(&fd);
        return 0;
}
