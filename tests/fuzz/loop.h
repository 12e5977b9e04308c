/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's loop, played: libuv's calls end in loop.c. Time stands still but for loop_pass, and what
 * happens next is up to the caller, so that an input decides it. One loop at a time; one thread. */
#pragma once

#include <limits.h>
#include <stdint.h>
#include <uv.h>

/* The fd of libuv's epoll set, which has nothing to tell: libuv has its turn whenever the daemon has one. */
#define LOOP_FD INT_MAX

void loop_begin(void);

void loop_pass(uint64_t ms);

/* As if the process was sent it. */
void loop_signal(int number);
