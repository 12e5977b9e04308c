/* SPDX-License-Identifier: Apache-2.0 */
/* Another process, of the same tenant or of another, which obeys the test: it allocates, frees, is stopped,
 * or dies. Start it before the caller uses the driver. Failures end the test. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct holder {
        pid_t pid;
        int fd;
};

/* Connected, with a device in use, when it returns. */
void holder_start(struct holder *holder);

/* The same as a process of another user, for whom the daemon's socket must be open: needs root. */
void holder_start_as(struct holder *holder, uid_t uid);

/* One more allocation, filled with a byte of its own. The code of gpumem_alloc, which may wait. */
int holder_alloc(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);

/* The same of pinned memory. */
int holder_alloc_pinned(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);

/* The code of gpumem_reserve on the first device. In two steps: the caller does something while it waits. */
int holder_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);
void holder_begin_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);
int holder_end_reserve(struct holder *holder);

/* Its bytes are what they were. */
void holder_check(struct holder *holder);

/* All of them, in the order of its stream. */
void holder_free_all(struct holder *holder);

/* What it enqueues from now on begins when holder_go says so. */
void holder_hold_up(struct holder *holder);
void holder_go(struct holder *holder);

/* Something small in each of so many streams of its own, until its end. Bytes of the blocks that this
 * takes. */
#define HOLDER_STREAMS 4
uint64_t holder_keep(struct holder *holder, unsigned n_streams);

/* So many bytes in 100 pieces, by turns in those streams, and all of them freed; so many times. Then
 * nothing more is done. */
void holder_burst(struct holder *holder, uint64_t n_bytes, unsigned n_times);

/* Its allocations without a message, so far. */
uint64_t holder_hits(struct holder *holder);

/* gpumem_flush. */
void holder_flush(struct holder *holder);

/* So often has its client imported, mapped, unmapped, registered or unregistered a block. */
uint64_t holder_driver_calls(struct holder *holder);

/* SIGSTOP, and it stands; SIGCONT. */
void holder_stop(struct holder *holder);
void holder_continue(struct holder *holder);

/* Frees what it has, disconnects, leaves. */
void holder_end(struct holder *holder);

/* Leaves without a word to the library: the process's end is what ends it. Its exit status is 0. */
void holder_exit(struct holder *holder);

void holder_kill(struct holder *holder);
