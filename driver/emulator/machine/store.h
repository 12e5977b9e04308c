/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of one emulated device, or of the host's NUMA nodes: a sparse file whose address space is 64 times its
 * capacity, and a control file with the table of its live ranges. All processes of one directory share both.
 *
 * Ownership: a range is opened as an open file description of its own, which holds a lock on it. Every fd, mapping
 * and message in flight that refers to that description keeps the lock. The lock of a range that is offered is
 * shared, except for its last byte, which stays its owner's: others lock the rest of it by descriptions of their own,
 * while that byte is locked. A range without a lock is free: its bytes are punched out, so that the next owner reads
 * zeros. So the kernel does the accounting, also for killed processes.
 *
 * To release a range explicitly frees it at once, if nothing else refers to it. A range whose holders have died is
 * freed reclaim_ms after it was first seen dead. Dead holders are searched for when a process asks for usage, or for
 * more than is free.
 *
 * Any thread of the process that opened the store may call; a forked child may not. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ranges;

struct store {
        pthread_mutex_t mutex; /* the control file's lock is one for the whole process */
        char path[64];
        int directory_fd;
        int control_fd;
        int probe_fd; /* holds no lock, and sees all locks, this process's too */
        dev_t device;
        ino_t inode;
        uint64_t capacity;
        uint64_t reclaim_ms;
        bool is_dirty; /* the next owner sees old bytes, which a driver must not allow */
        struct ranges *ranges;
};

/* A hold on a range: one per process and handle, whatever maps it. */
struct store_hold {
        int fd; /* owned; its description holds the lock */
        uint64_t base;
        uint64_t n_bytes;
        uint64_t serial;
        uint32_t flags;
};

/* What one process has made, and is not freed yet. */
struct store_owner {
        uint32_t pid;
        uint64_t n_bytes;
};

/* Called before the first store_init of a library that may share its process with another one with the same stores. A
 * process's locks are one, and end with the first fd that either closes. So this one's locks belong to its open file,
 * and its stores are never closed. */
void store_lock_apart(void);

/* Opens a file of the directory; makes it if it does not exist. A user that may make files in the directory may use
 * the machine: the file gets the directory's mode. */
int store_file_open(int directory_fd, const char *path, int *ret_fd);

/* Opens the two files `name` and `name`-ranges in the directory, whose fd the caller keeps open. Makes them if they
 * do not exist; only one process at a time may do that. */
int store_init(struct store *store, int directory_fd, const char *name, uint64_t capacity,
               uint64_t reclaim_ms);

/* Makes a range. The file has no pages of it yet: see store_back. -ENOMEM: more than is free; -ENOSPC: the file
 * system is full. */
int store_create(struct store *store, uint64_t n_bytes, uint32_t flags,
                 struct store_hold *ret_hold);

/* Is the fd of this store's file? */
bool store_knows(const struct store *store, int fd);

/* Makes a further hold on the range that the fd's description has locked; the caller keeps `fd`. -EINVAL: it has
 * locked none. */
int store_adopt(struct store *store, int fd, struct store_hold *ret_hold);

/* From now on a process that knows base and serial may open the range, as long as this hold exists. Only the hold
 * with which the range was created can offer it. */
int store_offer(struct store *store, struct store_hold *hold);

/* Opens a range that another process has offered, with a hold of its own. -ENOENT: it is not offered, or no longer. */
int store_open(struct store *store, uint64_t base, uint64_t serial, struct store_hold *ret_hold);

/* Releases the hold; all mappings that were made for it must be gone. */
void store_release(struct store *store, struct store_hold *hold);

/* Allocates n_bytes of the range in the file system. A mapping of a file has pages only if the file system has room,
 * and a process that touches others is killed by SIGBUS. -ENOSPC: there is no room. */
int store_back(const struct store_hold *hold, uint64_t offset, uint64_t n_bytes);

int store_used(struct store *store, uint64_t *ret_used);

/* The processes that made the ranges in use, including dead ones. At most n_max; returns the number that there are. */
unsigned store_owners(struct store *store, struct store_owner *ret_owners, unsigned n_max);
