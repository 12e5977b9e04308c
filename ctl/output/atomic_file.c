/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

static int write_all(int fd, const char *text, size_t n_bytes)
{
        while (n_bytes) {
                ssize_t n = write(fd, text, n_bytes);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return err_errno();
                text += n;
                n_bytes -= (size_t)n;
        }
        return 0;
}

static int check_place(const char *path)
{
        struct stat there;

        if (lstat(path, &there) < 0)
                return errno == ENOENT ? 0 : err_errno();
        return S_ISREG(there.st_mode) ? 0 : -EEXIST;
}

static int fill(int fd, const char *text, size_t n_bytes)
{
        int r = write_all(fd, text, n_bytes);

        return !r && fchmod(fd, 0644) < 0 ? err_errno() : r;
}

int atomic_file_write(const char *path, const char *text, size_t n_bytes)
{
        CLEANUP(freep)
        char *beside = NULL;
        CLEANUP(closep)
        int fd = -1;
        int r = check_place(path);

        if (r)
                return r;
        if (asprintf(&beside, "%s.XXXXXX", path) < 0) {
                beside = NULL;
                return -ENOMEM;
        }
        fd = mkostemp(beside, O_CLOEXEC);
        if (fd < 0)
                return err_errno();
        r = fill(fd, text, n_bytes);
        if (!r && rename(beside, path) < 0)
                r = err_errno();
        if (r)
                (void)unlink(beside);
        return r;
}
