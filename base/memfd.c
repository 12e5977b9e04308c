/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memfd.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Linux 5.1; missing in the headers of some systems. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* That are looked at in one call. */
#define PAGES_AT_ONCE 64

#define HUGE_FLAGS (MFD_HUGETLB | MFD_HUGE_2MB)

static int memfd_open(const char *name, uint64_t n_bytes, unsigned flags, int *ret_fd)
{
        CLEANUP(closep)
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

        if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) < 0 || ftruncate(fd, (off_t)n_bytes) < 0)
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int new_of_fixed_size(const char *name, uint64_t n_bytes, unsigned flags, int seals,
                             int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        int r = memfd_open(name, n_bytes, flags, &fd);

        if (r)
                return r;
        if (fcntl(fd, F_ADD_SEALS, SIZE_SEALS | seals) < 0)
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

int memfd_new(const char *name, uint64_t n_bytes, int *ret_fd)
{
        return new_of_fixed_size(name, n_bytes, 0, F_SEAL_SEAL, ret_fd);
}

int memfd_new_huge(const char *name, uint64_t n_bytes, int *ret_fd)
{
        return new_of_fixed_size(name, n_bytes, HUGE_FLAGS, F_SEAL_SEAL, ret_fd);
}

int memfd_new_to_keep(const char *name, uint64_t n_bytes, int *ret_fd)
{
        return new_of_fixed_size(name, n_bytes, 0, 0, ret_fd);
}

static size_t n_page_bytes(void)
{
        return (size_t)sysconf(_SC_PAGESIZE);
}

/* The kernel says so if there is no memory for them; to touch one would end the process. Older kernels than 6.9 give up at each
 * signal. A page is in memory only when it has been touched. */
int memfd_make_pages(int fd, void *bytes, size_t n_bytes)
{
        volatile char *page = bytes;

        while (fallocate(fd, 0, 0, (off_t)n_bytes) < 0) {
                if (errno != EINTR)
                        return err_errno();
        }
        for (size_t at = 0; at < n_bytes; at += n_page_bytes())
                page[at] = page[at];
        return 0;
}

int memfd_keep_pages(int fd)
{
        return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0 ? err_errno() : 0;
}

bool memfd_pages_are_kept(int fd)
{
        int seals = fcntl(fd, F_GET_SEALS);

        return seals >= 0 && (seals & F_SEAL_FUTURE_WRITE);
}

bool memfd_has_pages(void *bytes, size_t n_bytes)
{
        unsigned char is_there[PAGES_AT_ONCE];
        size_t n_page = n_page_bytes();
        char *at = bytes, *end = at + n_bytes;

        while (at < end) {
                size_t n = size_smaller((size_t)(end - at), PAGES_AT_ONCE * n_page);

                if (mincore(at, n, is_there) < 0)
                        return false;
                for (size_t i = 0; i < (n + n_page - 1) / n_page; i++) {
                        if (!(is_there[i] & 1))
                                return false;
                }
                at += n;
        }
        return true;
}

int memfd_open_to_read(int fd, int *ret_fd)
{
        char path[32];
        int opened;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        opened = open(path, O_RDONLY | O_CLOEXEC);
        if (opened < 0)
                return err_errno();
        *ret_fd = opened;
        return 0;
}

int memfd_write(int fd, const void *bytes, size_t n_bytes, uint64_t offset)
{
        size_t written = 0;

        while (written < n_bytes) {
                ssize_t n = pwrite(fd, (const char *)bytes + written, n_bytes - written,
                                   (off_t)(offset + written));

                if (n < 0)
                        return err_errno();
                written += (size_t)n;
        }
        return 0;
}

int memfd_new_constant(const char *name, const void *bytes, size_t n_bytes, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        int r = memfd_open(name, n_bytes, 0, &fd);

        if (!r)
                r = memfd_write(fd, bytes, n_bytes, 0);
        if (r)
                return r;
        if (fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

int memfd_check(int fd, uint64_t n_bytes)
{
        struct stat st;
        int seals = fcntl(fd, F_GET_SEALS);

        if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0)
                return -EPROTO;
        return (uint64_t)st.st_size == n_bytes ? 0 : -EPROTO;
}

static int map(int fd, size_t n_bytes, int protection, int flags, void **ret_bytes)
{
        void *bytes = mmap(NULL, n_bytes, protection, flags, fd, 0);

        if (bytes == MAP_FAILED)
                return err_errno();
        *ret_bytes = bytes;
        return 0;
}

int memfd_map_read(int fd, size_t n_bytes, const void **ret_bytes)
{
        void *bytes;
        int r = map(fd, n_bytes, PROT_READ, MAP_PRIVATE, &bytes);

        if (r)
                return r;
        *ret_bytes = bytes;
        return 0;
}

int memfd_map_shared(int fd, size_t n_bytes, void **ret_bytes)
{
        return map(fd, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ret_bytes);
}
