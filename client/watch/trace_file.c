/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/trace_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"

#define BUFFER_BYTES 65536

/* From <zlib.h>. */
#define GZ_FINISH 4

struct zlib {
        void *library;
        void *(*open)(int fd, const char *mode);
        int (*write)(void *stream, const void *bytes, unsigned n_bytes);
        int (*flush)(void *stream, int how);
        int (*close)(void *stream);
};

struct trace_file {
        int fd;
        struct zlib zlib;
        void *stream; /* NULL: not compressed. It owns the fd */
        int failed;
        bool is_regular;
        off_t n_written;
        size_t n_buffered;
        char buffer[BUFFER_BYTES];
};

static bool has_suffix(const char *path, const char *suffix)
{
        size_t n_path = strlen(path), n_suffix = strlen(suffix);

        return n_path >= n_suffix && strcmp(path + n_path - n_suffix, suffix) == 0;
}

static void *symbol(const struct zlib *zlib, const char *name)
{
        return dlsym(zlib->library, name);
}

static int load_zlib(struct zlib *zlib)
{
        zlib->library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!zlib->library)
                return GPUMEM_E_UNSUPPORTED;
        *(void **)&zlib->open = symbol(zlib, "gzdopen");
        *(void **)&zlib->write = symbol(zlib, "gzwrite");
        *(void **)&zlib->flush = symbol(zlib, "gzflush");
        *(void **)&zlib->close = symbol(zlib, "gzclose");
        return zlib->open && zlib->write && zlib->flush && zlib->close ? 0 : GPUMEM_E_UNSUPPORTED;
}

/* Empties the file only once this process has locked it. The lock ends with the last fd. */
static int take_over(struct trace_file *file)
{
        struct stat status;

        if (fstat(file->fd, &status) < 0)
                return err_errno();
        file->is_regular = S_ISREG(status.st_mode);
        if (!file->is_regular)
                return 0;
        if (flock(file->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return -EBUSY;
        return ftruncate(file->fd, 0) < 0 ? err_errno() : 0;
}

static int open_file(struct trace_file *file, const char *path)
{
        bool compressed = has_suffix(path, ".gz");
        int r = 0;

        file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
        if (file->fd < 0)
                return err_errno();
        if (compressed)
                r = load_zlib(&file->zlib);
        if (!r)
                r = take_over(file);
        if (r || !compressed)
                return r;
        file->stream = file->zlib.open(file->fd, "wb");
        return file->stream ? 0 : -ENOMEM;
}

/* zlib stays loaded: other code may use it by now. */
static void free_file(struct trace_file *file)
{
        closep(&file->fd);
        free(file);
}

int trace_file_open(const char *path, struct trace_file **ret_file)
{
        struct trace_file *file = calloc(1, sizeof(*file));
        int r;

        if (!file)
                return -ENOMEM;
        r = open_file(file, path);
        if (r) {
                free_file(file);
                return r;
        }
        *ret_file = file;
        return 0;
}

static int write_plain(struct trace_file *file)
{
        size_t n_done = 0;

        while (n_done < file->n_buffered) {
                ssize_t n = write(file->fd, file->buffer + n_done, file->n_buffered - n_done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        int r = err_errno();

                        /* Leaves no half line. */
                        if (file->is_regular && ftruncate(file->fd, file->n_written) < 0)
                                r = err_errno();
                        return r;
                }
                n_done += (size_t)n;
        }
        file->n_written += (off_t)n_done;
        return 0;
}

static int write_compressed(struct trace_file *file)
{
        errno = 0;
        return file->zlib.write(file->stream, file->buffer, (unsigned)file->n_buffered) ==
                               (int)file->n_buffered
                       ? 0
                       : err_errno();
}

int trace_file_flush(struct trace_file *file)
{
        if (!file->failed && file->n_buffered)
                file->failed = file->stream ? write_compressed(file) : write_plain(file);
        file->n_buffered = 0;
        return file->failed;
}

int trace_file_complete(struct trace_file *file)
{
        int r = trace_file_flush(file);

        errno = 0;
        if (!r && file->stream && file->zlib.flush(file->stream, GZ_FINISH) != 0)
                file->failed = err_errno();
        return file->failed;
}

int trace_file_write(struct trace_file *file, const char *lines, size_t n_bytes)
{
        if (n_bytes > sizeof(file->buffer))
                return -EMSGSIZE;
        if (file->n_buffered + n_bytes > sizeof(file->buffer))
                (void)trace_file_flush(file);
        if (file->failed)
                return file->failed;
        memcpy(file->buffer + file->n_buffered, lines, n_bytes);
        file->n_buffered += n_bytes;
        return 0;
}

int trace_file_close(struct trace_file *file)
{
        int r = trace_file_flush(file);

        if (file->stream) {
                errno = 0;
                if (file->zlib.close(file->stream) != 0 && !r)
                        r = err_errno();
                file->fd = -1;
        }
        free_file(file);
        return r;
}

void trace_file_abandon(struct trace_file *file)
{
        (void)close(file->fd);
}
