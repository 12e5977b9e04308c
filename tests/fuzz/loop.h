/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's loop, played: libuv's calls end in loop.c. Time stands still but for loop_pass, and what
 * happens next is up to the caller, so that an input decides it. One loop at a time; one thread. */
#pragma once

#include <stdint.h>
#include <uv.h>

/* Which files are ready: UV_READABLE, UV_WRITABLE, UV_DISCONNECT, of those that are asked for. */
void loop_begin(int (*ready)(int fd, int events));

/* Timers that are due, what goes on, what comes before the loop waits, what is ready, what was closed. */
void loop_turn(void);

void loop_pass(uint64_t ms);

/* As if the process was sent it. */
void loop_signal(int number);
