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

/* The process is connected, with a device in use, when this returns. */
void holder_start(struct holder *holder);

/* The same as a process of another user, for whom the daemon's socket must be open: needs root. */
void holder_start_as(struct holder *holder, uid_t uid);

/* Allocates once more, filled with a byte of its own. The code of gpumem_alloc, which may wait. */
int holder_alloc(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);

/* The same for pinned memory. */
int holder_alloc_pinned(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);

/* The code of gpumem_reserve on the first device. In two steps, so that the caller can act while it waits. */
int holder_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);
void holder_begin_reserve(struct holder *holder, uint64_t n_bytes, uint32_t wait_ms);
int holder_end_reserve(struct holder *holder);

/* Its bytes must be unchanged. */
void holder_check(struct holder *holder);

/* It frees all as soon as it learns that others lack memory. In two steps, so that the caller can ask meanwhile; the
 * second tells how often its callback was called for that. */
void holder_begin_answer(struct holder *holder);
unsigned holder_end_answer(struct holder *holder);

/* Frees all, in the order of its stream. */
void holder_free_all(struct holder *holder);

/* Its work from now on begins only at holder_go. */
void holder_hold_up(struct holder *holder);
void holder_go(struct holder *holder);

/* Makes a small allocation in each of so many streams of its own, until its end. Returns the bytes of the
 * blocks. */
#define HOLDER_STREAMS 4
uint64_t holder_keep(struct holder *holder, unsigned n_streams);

/* Allocates so many bytes in 100 parts, by turns in those streams, and frees them all; so many times. Then
 * it is idle. */
void holder_burst(struct holder *holder, uint64_t n_bytes, unsigned n_times);

/* Its allocations without a message so far. */
uint64_t holder_hits(struct holder *holder);

/* gpumem_flush. */
void holder_flush(struct holder *holder);

/* How often its client has imported, mapped, unmapped, registered or unregistered a block. */
uint64_t holder_driver_calls(struct holder *holder);

/* SIGSTOP, and waits until it has stopped; SIGCONT. */
void holder_stop(struct holder *holder);
void holder_continue(struct holder *holder);

/* Frees its memory, disconnects and ends. */
void holder_end(struct holder *holder);

/* Ends without a call of the library. Its exit status is 0. */
void holder_exit(struct holder *holder);

void holder_kill(struct holder *holder);
