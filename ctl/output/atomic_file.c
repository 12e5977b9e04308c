/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/atomic_file.h"

#include <fcntl.h>
#include <stdbool.h>
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

/* What is there, if that is a file that may be replaced. */
static int check_place(const char *path, struct stat *ret_there, bool *ret_is_there)
{
        *ret_is_there = lstat(path, ret_there) == 0;
        if (!*ret_is_there)
                return errno == ENOENT ? 0 : err_errno();
        return S_ISREG(ret_there->st_mode) ? 0 : -EEXIST;
}

/* `like`: whose owner and mode it gets; NULL: its own, and 0644. */
static int fill(int fd, const char *text, size_t n_bytes, const struct stat *like)
{
        int r = write_all(fd, text, n_bytes);

        if (!r && like && fchown(fd, like->st_uid, like->st_gid) < 0)
                r = err_errno();
        if (!r && fchmod(fd, like ? like->st_mode & 07777 : 0644) < 0)
                r = err_errno();
        return r;
}

static int put(const char *path, const char *text, size_t n_bytes, const struct stat *like)
{
        CLEANUP(freep)
        char *beside = NULL;
        CLEANUP(closep)
        int fd = -1;
        int r;

        if (asprintf(&beside, "%s.XXXXXX", path) < 0) {
                beside = NULL;
                return -ENOMEM;
        }
        fd = mkostemp(beside, O_CLOEXEC);
        if (fd < 0)
                return err_errno();
        r = fill(fd, text, n_bytes, like);
        if (!r && rename(beside, path) < 0)
                r = err_errno();
        if (r)
                (void)unlink(beside);
        return r;
}

int atomic_file_write(const char *path, const char *text, size_t n_bytes)
{
        struct stat there;
        bool is_there;
        int r = check_place(path, &there, &is_there);

        return r ? r : put(path, text, n_bytes, NULL);
}

int atomic_file_replace(const char *path, const char *text, size_t n_bytes)
{
        struct stat there;
        bool is_there;
        int r = check_place(path, &there, &is_there);

        return r ? r : put(path, text, n_bytes, is_there ? &there : NULL);
}
