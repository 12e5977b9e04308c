/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/nvml/nvml_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "driver/emulator/machine/config.h"

#define FILE_NAME "nvml"
#define FILE_MAX  4096
#define POLL_US   500

static const struct {
        const char *name;
        size_t offset;
} lines[] = {
        {"mig", offsetof(struct nvml_state, mig)},
        {"uncorrected", offsetof(struct nvml_state, uncorrected)},
        {"remapped", offsetof(struct nvml_state, remapped)},
        {"recovery", offsetof(struct nvml_state, recovery)},
        {"result", offsetof(struct nvml_state, result)},
        {"xid", offsetof(struct nvml_state, xid)},
        {"hang", offsetof(struct nvml_state, hang)},
        {"nth", offsetof(struct nvml_state, nth)},
};

static void line_read(char *line, unsigned device, struct nvml_state *state)
{
        char *number = strchr(line, '=');
        unsigned long of_device, value;
        char *end;

        if (!number)
                return;
        *number++ = '\0';
        of_device = strtoul(number, &end, 10);
        if (end == number || *end != ':' || of_device != device)
                return;
        value = strtoul(end + 1, NULL, 10);
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
                if (strcmp(lines[i].name, line) == 0)
                        memcpy((char *)state + lines[i].offset, &(uint64_t){value},
                               sizeof(uint64_t));
}

static void file_read(int directory_fd, unsigned device, struct nvml_state *ret_state)
{
        CLEANUP(closep)
        int fd = openat(directory_fd, FILE_NAME, O_RDONLY | O_CLOEXEC);
        char text[FILE_MAX], *rest = text, *line;
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

        *ret_state = (struct nvml_state){0};
        text[n > 0 ? n : 0] = '\0';
        while ((line = strsep(&rest, "\n")))
                line_read(line, device, ret_state);
}

/* A file that was put in another's place by a rename has another inode; 0: there is none. */
static ino_t file_inode(int directory_fd)
{
        struct stat st;

        return fstatat(directory_fd, FILE_NAME, &st, 0) == 0 ? st.st_ino : 0;
}

/* The number of a call for the device under that file. */
static uint64_t count_call(ino_t inode, unsigned device)
{
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        static struct {
                ino_t inode;
                uint64_t n;
        } calls[CONFIG_DEVICES_MAX];
        uint64_t n;

        (void)pthread_mutex_lock(&mutex);
        if (calls[device].inode != inode)
                calls[device].n = 0;
        calls[device].inode = inode;
        n = ++calls[device].n;
        (void)pthread_mutex_unlock(&mutex);
        return n;
}

enum whose { OF_THE_DEVICE, OF_NONE };

/* A call that hangs uses no fd: the process may end meanwhile. */
static void state_read(int directory_fd, unsigned device, enum whose whose,
                       struct nvml_state *ret_state)
{
        ino_t inode;

        do {
                inode = file_inode(directory_fd);
                file_read(directory_fd, device, ret_state);
                if (ret_state->nth ? count_call(inode, device) != ret_state->nth : whose == OF_NONE)
                        ret_state->result = ret_state->hang = 0;
                while (ret_state->hang && file_inode(directory_fd) == inode)
                        (void)usleep(POLL_US);
        } while (ret_state->hang);
}

void nvml_state_read(int directory_fd, unsigned device, struct nvml_state *ret_state)
{
        state_read(directory_fd, device, OF_THE_DEVICE, ret_state);
}

void nvml_state_read_apart(int directory_fd, struct nvml_state *ret_state)
{
        state_read(directory_fd, 0, OF_NONE, ret_state);
}
