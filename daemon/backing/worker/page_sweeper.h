/* SPDX-License-Identifier: Apache-2.0 */
/* Frees the pages of files that clients may still hold, so that only empty files are left to them. A process that writes to
 * the file can delay this as long as it likes, so a thread of its own does it, and callers wait only briefly. While one sweep is
 * delayed, what comes behind it waits, too. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_sweeper;

int page_sweeper_new(struct page_sweeper **ret_sweeper);

/* From now on the thread calls this after each sweep: it is idle again, and awake. The argument must outlive it. */
void page_sweeper_set_after(struct page_sweeper *sweeper, void (*after)(void *argument),
                            void *argument);

/* NULL is legal; returns NULL. Finishes the queue first, within a limit of time. */
struct page_sweeper *page_sweeper_free(struct page_sweeper *sweeper);

/* Frees the memory behind a shared mapping, and unmaps it. Its first 4096 bytes are zero before any other, so that those
 * that read meanwhile notice: they check the first row or the header again. */
void page_sweeper_take_mapping(struct page_sweeper *sweeper, void *take_bytes, size_t n_bytes);

/* False: many wait, so that no more should be shared that would have to be swept. */
bool page_sweeper_keeps_up(struct page_sweeper *sweeper);

/* Frees the memory of a whole file. Returns when that is done, after a second, or at once while an earlier
 * sweep is delayed. */
void page_sweeper_take_file(struct page_sweeper *sweeper, int take_fd, uint64_t n_bytes);
