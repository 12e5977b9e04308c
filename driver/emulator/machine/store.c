/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "driver/emulator/machine/ranges.h"

#define BACK_BYTES  (UINT64_C(64) << 20)
#define LEAST_BYTES (UINT64_C(2) << 20) /* ranges are not smaller */

static bool locks_apart;

void store_lock_apart(void)
{
        locks_apart = true;
}

int store_file_open(int directory_fd, const char *path, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        struct stat directory, file;

        if (fstat(directory_fd, &directory) < 0)
                return err_errno();
        fd = openat(directory_fd, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 || fstat(fd, &file) < 0)
                return err_errno();
        if (file.st_uid == geteuid() && fchmod(fd, directory.st_mode & 0666) < 0)
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int sized_file_open(int directory_fd, const char *path, uint64_t n_bytes, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        struct stat st;
        int r;

        r = store_file_open(directory_fd, path, &fd);
        if (r)
                return r;
        if (fstat(fd, &st) < 0 ||
            ((uint64_t)st.st_size != n_bytes && ftruncate(fd, (off_t)n_bytes) < 0))
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

/* In pieces: a signal undoes the work of one call. */
static int back_file(int fd, uint64_t start, uint64_t n_bytes)
{
        uint64_t n_done = 0;

        while (n_done < n_bytes) {
                uint64_t n_left = n_bytes - n_done, n = n_left < BACK_BYTES ? n_left : BACK_BYTES;

                if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)(start + n_done), (off_t)n) < 0) {
                        if (errno == EINTR)
                                continue;
                        if (errno == ENOSPC || errno == EDQUOT)
                                return -ENOSPC;
                        /* This file system cannot say. */
                        return 0;
                }
                n_done += n;
        }
        return 0;
}

static int control_open(struct store *store)
{
        char path[sizeof(store->path) + sizeof("-ranges")];
        void *bytes;
        int r;

        (void)snprintf(path, sizeof(path), "%s-ranges", store->path);
        r = sized_file_open(store->directory_fd, path, sizeof(struct ranges), &store->control_fd);
        if (!r)
                r = back_file(store->control_fd, 0, sizeof(struct ranges));
        if (r)
                return r;
        bytes = mmap(NULL, sizeof(struct ranges), PROT_READ | PROT_WRITE, MAP_SHARED,
                     store->control_fd, 0);
        if (bytes == MAP_FAILED)
                return err_errno();
        store->ranges = bytes;
        if (!ranges_valid(store->ranges, store->capacity))
                ranges_init(store->ranges, store->capacity);
        return 0;
}

int store_init(struct store *store, int directory_fd, const char *name, uint64_t capacity,
               uint64_t reclaim_ms)
{
        struct stat st;
        int r;

        *store = (struct store){.mutex = PTHREAD_MUTEX_INITIALIZER,
                                .directory_fd = directory_fd,
                                .control_fd = -1,
                                .probe_fd = -1,
                                .capacity = capacity,
                                .reclaim_ms = reclaim_ms};
        (void)snprintf(store->path, sizeof(store->path), "%s", name);
        r = sized_file_open(directory_fd, name, capacity * RANGES_ADDRESS_FACTOR, &store->probe_fd);
        if (!r && fstat(store->probe_fd, &st) < 0)
                r = err_errno();
        if (!r)
                r = control_open(store);
        if (r) {
                closep(&store->control_fd);
                closep(&store->probe_fd);
                return r;
        }
        store->device = st.st_dev;
        store->inode = st.st_ino;
        return 0;
}

/* A record lock of the old kind on purpose: it belongs to the process, so that a forked child
 * does not keep it when its parent is killed, and it ends with the process. The kernel may see a
 * deadlock where several threads wait for several stores; there is none, so try again. */
static void store_lock(struct store *store)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

        (void)pthread_mutex_lock(&store->mutex);
        while (fcntl(store->control_fd, locks_apart ? F_OFD_SETLKW : F_SETLKW, &lock) < 0)
                if (errno == EDEADLK)
                        (void)usleep(100);
}

static void store_unlock(struct store *store)
{
        struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};

        (void)fcntl(store->control_fd, locks_apart ? F_OFD_SETLK : F_SETLK, &lock);
        (void)pthread_mutex_unlock(&store->mutex);
}

static struct flock lock_of(short type, uint64_t base, uint64_t n_bytes)
{
        return (struct flock){.l_type = type,
                              .l_whence = SEEK_SET,
                              .l_start = (off_t)base,
                              .l_len = (off_t)n_bytes};
}

/* Whether a description other than that of `fd` holds a lock inside the range. */
static bool is_locked(int fd, uint64_t base, uint64_t n_bytes)
{
        struct flock lock = lock_of(F_WRLCK, base, n_bytes);

        return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* Zeroed first and off the list second: a process killed in between leaves a dead range. */
static void range_reclaim(struct store *store, struct range *range)
{
        if (store->is_dirty ||
            fallocate(store->probe_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      (off_t)range->base, (off_t)range->n_bytes) == 0)
                ranges_remove(store->ranges, range);
}

static bool range_is_due(const struct store *store, struct range *range)
{
        int64_t now = (int64_t)clock_now_ms();

        if (is_locked(store->probe_fd, range->base, range->n_bytes)) {
                range->seen_dead_at_ms = 0;
                return false;
        }
        /* Everybody let go in good order, and the last fd was merely closed. */
        if (range->n_holders == 0)
                return true;
        /* A time in the future was noted before the machine restarted. */
        if (range->seen_dead_at_ms == 0 || range->seen_dead_at_ms > now)
                range->seen_dead_at_ms = now;
        return now - range->seen_dead_at_ms >= (int64_t)store->reclaim_ms;
}

static void store_sweep(struct store *store)
{
        struct range *range = ranges_next(store->ranges, NULL);

        while (range) {
                struct range *next = ranges_next(store->ranges, range);

                if (range_is_due(store, range))
                        range_reclaim(store, range);
                range = next;
        }
}

/* To check every range takes time that grows with the square of their number, because the kernel keeps locks in a
 * list. So it is done only if the known free memory does not suffice. */
static bool has_room(struct store *store, uint64_t n_bytes)
{
        if (n_bytes > store->capacity)
                return false;
        if (ranges_used(store->ranges) <= store->capacity - n_bytes)
                return true;
        store_sweep(store);
        return ranges_used(store->ranges) <= store->capacity - n_bytes;
}

/* The description's file position says where its range begins, to the process that receives the fd. */
static int range_open(struct store *store, uint64_t base, uint64_t n_bytes, short type, int *ret_fd)
{
        CLEANUP(closep)
        int fd = openat(store->directory_fd, store->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        struct flock lock = lock_of(type, base, n_bytes);

        if (fd < 0 || lseek(fd, (off_t)base, SEEK_SET) < 0 || fcntl(fd, F_OFD_SETLK, &lock) < 0)
                return err_errno();
        *ret_fd = steal_fd(&fd);
        return 0;
}

/* Memory is made of nothing, and may be more than there is; but where there is not even the least of it, none
 * could be used. */
static bool is_full(const struct store *store)
{
        struct statvfs there;

        return fstatvfs(store->probe_fd, &there) == 0 && there.f_blocks &&
               there.f_bfree * there.f_frsize < LEAST_BYTES;
}

static int create_locked(struct store *store, uint64_t n_bytes, uint32_t flags,
                         struct store_hold *ret_hold)
{
        CLEANUP(closep)
        int fd = -1;
        struct range *range;
        uint64_t base;
        int r;

        if (!has_room(store, n_bytes))
                return -ENOMEM;
        if (is_full(store))
                return -ENOSPC;
        r = ranges_find_gap(store->ranges, n_bytes, &base);
        if (!r)
                r = range_open(store, base, n_bytes, F_WRLCK, &fd);
        if (!r)
                r = ranges_insert(store->ranges, base, n_bytes, flags, (uint32_t)getpid(), &range);
        if (r)
                return r;
        *ret_hold = (struct store_hold){.fd = steal_fd(&fd),
                                        .base = base,
                                        .n_bytes = n_bytes,
                                        .serial = range->serial,
                                        .flags = flags};
        return 0;
}

int store_create(struct store *store, uint64_t n_bytes, uint32_t flags, struct store_hold *ret_hold)
{
        int r;

        store_lock(store);
        r = create_locked(store, n_bytes, flags, ret_hold);
        store_unlock(store);
        return r;
}

int store_back(const struct store_hold *hold, uint64_t offset, uint64_t n_bytes)
{
        return back_file(hold->fd, hold->base + offset, n_bytes);
}

bool store_knows(const struct store *store, int fd)
{
        struct stat st;

        return fstat(fd, &st) == 0 && st.st_dev == store->device && st.st_ino == store->inode;
}

static int adopt_locked(struct store *store, int fd, struct store_hold *ret_hold)
{
        CLEANUP(closep)
        int copy = -1;
        off_t base = lseek(fd, 0, SEEK_CUR);
        struct range *range = base < 0 ? NULL : ranges_find(store->ranges, (uint64_t)base);

        /* The lock must be there, and be this description's: a description does not see its own. */
        if (!range || !is_locked(store->probe_fd, range->base, range->n_bytes) ||
            is_locked(fd, range->base, range->n_bytes) || !(range->flags & RANGE_EXPORTABLE))
                return -EINVAL;
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
                return err_errno();
        range->n_holders++;
        *ret_hold = (struct store_hold){.fd = steal_fd(&copy),
                                        .base = range->base,
                                        .n_bytes = range->n_bytes,
                                        .serial = range->serial,
                                        .flags = range->flags};
        return 0;
}

int store_adopt(struct store *store, int fd, struct store_hold *ret_hold)
{
        int r;

        if (!store_knows(store, fd))
                return -EINVAL;
        store_lock(store);
        r = adopt_locked(store, fd, ret_hold);
        store_unlock(store);
        return r;
}

static int offer_locked(struct store *store, struct store_hold *hold)
{
        struct flock shared = lock_of(F_RDLCK, hold->base, hold->n_bytes - 1);
        struct range *range = ranges_find(store->ranges, hold->base);

        if (!range || range->serial != hold->serial)
                return -EINVAL;
        if (fcntl(hold->fd, F_OFD_SETLK, &shared) < 0)
                return err_errno();
        range->flags |= RANGE_OFFERED;
        return 0;
}

int store_offer(struct store *store, struct store_hold *hold)
{
        int r;

        store_lock(store);
        r = offer_locked(store, hold);
        store_unlock(store);
        return r;
}

static int open_locked(struct store *store, uint64_t base, uint64_t serial,
                       struct store_hold *ret_hold)
{
        CLEANUP(closep)
        int fd = -1;
        struct range *range = ranges_find(store->ranges, base);
        int r;

        if (!range || range->serial != serial || !(range->flags & RANGE_OFFERED) ||
            !is_locked(store->probe_fd, base + range->n_bytes - 1, 1))
                return -ENOENT;
        r = range_open(store, base, range->n_bytes - 1, F_RDLCK, &fd);
        if (r)
                return r;
        range->n_holders++;
        *ret_hold = (struct store_hold){.fd = steal_fd(&fd),
                                        .base = base,
                                        .n_bytes = range->n_bytes,
                                        .serial = serial,
                                        .flags = range->flags};
        return 0;
}

int store_open(struct store *store, uint64_t base, uint64_t serial, struct store_hold *ret_hold)
{
        int r;

        store_lock(store);
        r = open_locked(store, base, serial, ret_hold);
        store_unlock(store);
        return r;
}

void store_release(struct store *store, struct store_hold *hold)
{
        struct flock unlock = lock_of(F_UNLCK, hold->base, hold->n_bytes);
        struct range *range;

        /* A range that was never exported has no other user, though a forked child has a copy of the fd. */
        if (!(hold->flags & RANGE_EXPORTABLE))
                (void)fcntl(hold->fd, F_OFD_SETLK, &unlock);
        closep(&hold->fd);
        store_lock(store);
        range = ranges_find(store->ranges, hold->base);
        if (range && range->serial == hold->serial) {
                range->n_holders--;
                if (!is_locked(store->probe_fd, range->base, range->n_bytes))
                        range_reclaim(store, range);
        }
        store_unlock(store);
}

int store_used(struct store *store, uint64_t *ret_used)
{
        store_lock(store);
        store_sweep(store);
        *ret_used = ranges_used(store->ranges);
        store_unlock(store);
        return 0;
}

static unsigned owner_add(struct store_owner *owners, unsigned n, unsigned n_max,
                          const struct range *range)
{
        unsigned i = 0;

        while (i < n && i < n_max && owners[i].pid != range->pid)
                i++;
        if (i < n_max) {
                if (i == n)
                        owners[i] = (struct store_owner){.pid = range->pid};
                owners[i].n_bytes += range->n_bytes;
        }
        return i == n || i == n_max ? n + 1 : n;
}

unsigned store_owners(struct store *store, struct store_owner *ret_owners, unsigned n_max)
{
        unsigned n = 0;

        store_lock(store);
        store_sweep(store);
        for (struct range *range = ranges_next(store->ranges, NULL); range;
             range = ranges_next(store->ranges, range))
                n = owner_add(ret_owners, n, n_max, range);
        store_unlock(store);
        return n;
}
