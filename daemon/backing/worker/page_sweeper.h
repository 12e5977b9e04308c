/* SPDX-License-Identifier: Apache-2.0 */
/* Takes memory back of files that processes may hold, and let them keep but the files. Whoever writes to such a file
 * may make that wait for as long as it likes: so a thread of its own does it, and nobody waits for it for long. While
 * it is made to wait, few others wait behind it: the rest is let go, mappings and fds, and its memory is gone unless a
 * process keeps the file. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct page_sweeper;

int page_sweeper_new(struct page_sweeper **ret_sweeper);

/* NULL is legal; returns NULL. What is left to do is done first, if that does not take long. */
struct page_sweeper *page_sweeper_free(struct page_sweeper *sweeper);

/* A shared mapping, which ends with the memory behind it. */
void page_sweeper_take_mapping(struct page_sweeper *sweeper, void *take_bytes, size_t n_bytes);

/* The memory of a whole file. Returns when it has gone; a second later; or at once, while somebody makes that wait. */
void page_sweeper_take_file(struct page_sweeper *sweeper, int take_fd, uint64_t n_bytes);
