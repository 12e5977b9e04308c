/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/size.h"

#define LAYOUT_MAGIC UINT64_C(0x3165646d6d757067)

/* The file that describes the machine; written last, so that it is whole or empty. */
struct layout {
        uint64_t magic;
        uint64_t n_devices;
        uint64_t device_bytes;
        uint8_t seed[16];
};

static int system_fault(char *reason, const char *what, const char *path)
{
        int r = err_errno();

        (void)config_refuse(reason, "cannot %s %s: %s", what, path, strerror(-r));
        return r;
}

static int folder_open(const char *path, char *reason, int *ret_fd)
{
        CLEANUP(closep)
        int fd = -1;
        struct stat st;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return system_fault(reason, "make the directory", path);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return system_fault(reason, "open the directory", path);
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int layout_make(int fd, const struct config *config, struct layout *ret_layout)
{
        struct layout layout = {.magic = LAYOUT_MAGIC,
                                .n_devices = config->n_devices,
                                .device_bytes = config->device_bytes};

        if (getrandom(layout.seed, sizeof(layout.seed), 0) != sizeof(layout.seed) ||
            pwrite(fd, &layout, sizeof(layout), 0) != sizeof(layout))
                return err_errno();
        *ret_layout = layout;
        return 0;
}

/* A file that makes the machine dirty for processes that start from then on; for tests. */
#define DIRTY_NAME "dirty"

static int layout_check(const struct layout *layout, const struct config *config, char *reason)
{
        char theirs[SIZE_TEXT_MAX], ours[SIZE_TEXT_MAX];

        if (layout->magic != LAYOUT_MAGIC)
                return config_refuse(reason,
                                     "%s/layout is not a file of this emulator; set dir=PATH",
                                     config->directory);
        if (layout->n_devices == config->n_devices && layout->device_bytes == config->device_bytes)
                return 0;
        return config_refuse(reason,
                             "%s was made with devices=%u and bytes=%s, not with devices=%u and "
                             "bytes=%s; say the same, remove it, or set another dir=PATH",
                             config->directory, (unsigned)layout->n_devices,
                             size_format(layout->device_bytes, theirs), config->n_devices,
                             size_format(config->device_bytes, ours));
}

static uint64_t host_bytes(void)
{
        uint64_t n_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

        return n_bytes & ~(2 * MIB - 1);
}

static int stores_init(struct directory *directory, const struct config *config, char *reason)
{
        char name[32];
        int r = 0;

        for (unsigned i = 0; !r && i < config->n_devices; i++) {
                (void)snprintf(name, sizeof(name), "device-%u", i);
                r = store_init(&directory->devices[i], directory->fd, name, config->device_bytes,
                               config->reclaim_ms);
                directory->devices[i].is_dirty = config->is_dirty ||
                                                 faccessat(directory->fd, DIRTY_NAME, F_OK, 0) == 0;
        }
        if (!r)
                r = store_init(&directory->host, directory->fd, "host", host_bytes(),
                               config->reclaim_ms);
        if (!r)
                return 0;
        (void)config_refuse(reason, "cannot make the devices' files in %s: %s", config->directory,
                            strerror(-r));
        return r;
}

static int directory_fill(struct directory *directory, const struct config *config, int layout_fd,
                          char *reason)
{
        struct layout layout;
        ssize_t n = pread(layout_fd, &layout, sizeof(layout), 0);
        int r;

        if (n == sizeof(layout)) {
                r = layout_check(&layout, config, reason);
                if (r)
                        return r;
        }
        r = stores_init(directory, config, reason);
        if (r)
                return r;
        if (n != sizeof(layout) && layout_make(layout_fd, config, &layout))
                return system_fault(reason, "write the layout in", config->directory);
        memcpy(directory->seed, layout.seed, sizeof(layout.seed));
        return 0;
}

int directory_init(struct directory *directory, const struct config *config,
                   char ret_reason[CONFIG_REASON_MAX])
{
        CLEANUP(closep)
        int layout_fd = -1;
        int r;

        r = folder_open(config->directory, ret_reason, &directory->fd);
        if (r)
                return r;
        r = store_file_open(directory->fd, "layout", &layout_fd);
        if (r || flock(layout_fd, LOCK_EX) < 0)
                return system_fault(ret_reason, "open and lock the layout in", config->directory);
        r = directory_fill(directory, config, layout_fd, ret_reason);
        /* Closing would not do: a child forked meanwhile has a copy of the fd. */
        (void)flock(layout_fd, LOCK_UN);
        return r;
}
