/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed shared memory: what a process may be handed without having to trust its peer's ftruncate. Another user that has an fd
 * of it has no other way to it, and so none to write where that fd only reads. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A memfd of n_bytes zero bytes that can neither shrink nor grow, nor be unsealed. */
int memfd_new(const char *name, uint64_t n_bytes, int *ret_fd);

/* The same of huge pages of 2 MiB, n_bytes being a multiple of that. Its pages are reserved when it is mapped. -ENOENT
 * and the like where the kernel has none of them. */
int memfd_new_huge(const char *name, uint64_t n_bytes, int *ret_fd);

/* The same as memfd_new, for memfd_keep_pages: each process that has it may seal it further. It has no page yet. */
int memfd_new_to_keep(const char *name, uint64_t n_bytes, int *ret_fd);

/* Makes all pages of a shared mapping of it, which count as this process's memory. -ENOMEM, -ENOSPC: there is none. */
int memfd_make_pages(int fd, void *bytes, size_t n_bytes);

/* From now on its pages stay: no process can take any out, by a hole or otherwise, nor write to it or map it for writing, this one
 * included. Mappings that there are stay writable. -EPERM: another process has sealed it against that or any other seal. */
int memfd_keep_pages(int fd);

/* Whether any process has done that. Nothing is waited for, as memfd_keep_pages() waits for a hole that is being punched. */
bool memfd_pages_are_kept(int fd);

/* Whether all pages of the caller's mapping are in memory. */
bool memfd_has_pages(void *bytes, size_t n_bytes);

/* Another fd of it, which only reads. */
int memfd_open_to_read(int fd, int *ret_fd);

/* Fills in a part of it. Errors of pwrite, as without memory. */
int memfd_write(int fd, const void *bytes, size_t n_bytes, uint64_t offset);

/* A memfd with these bytes, sealed: no process can change them. */
int memfd_new_constant(const char *name, const void *bytes, size_t n_bytes, int *ret_fd);

/* -EPROTO unless fd is a memfd of exactly n_bytes that cannot shrink. */
int memfd_check(int fd, uint64_t n_bytes);

/* A mapping, private to the caller, of n_bytes of a checked memfd. */
int memfd_map_read(int fd, size_t n_bytes, const void **ret_bytes);
int memfd_map_shared(int fd, size_t n_bytes, void **ret_bytes);
