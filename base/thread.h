/* SPDX-License-Identifier: Apache-2.0 */
/* Threads beside those of a program, which handles its own signals. Any thread. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* One that no signal of the process's is handed to: they are for the threads that were there before. */
int thread_start(void *(*run)(void *argument), void *argument, pthread_t *ret_thread);

/* Waits for the end of a thread, so long at most. False: it goes on. Setting the machine's clock meanwhile makes the wait
 * longer or shorter: the thread sanitizer of gcc 12 knows no wait by another clock. */
bool thread_join_within(pthread_t thread, uint64_t n_ns);

/* The name of the calling thread in `top -H`, perf and debuggers: at most 15 bytes of it. */
void thread_name_self(const char *name);

/* When the calling thread wakes it has a CPU at once, for 0.1 ms, also where another thread is in the midst of its time there,
 * which Linux makes 1.4 ms on 2 CPUs and 2.8 on 16: from Linux 6.12 on. Its nice value is -10 besides, if the process may
 * have that (CAP_SYS_NICE, or RLIMIT_NICE of 30 and more): else it has no more than others on the whole. */
void thread_prefer_soon(void);

/* The calling thread has the nice value 0, if that of the thread that started it was better. */
void thread_be_patient(void);

/* Linux divides CPUs among sessions first (sched(7): autogroup), and nice values count within a session. A thread that wakes
 * where another session keeps the CPU then waits for it, the longer the more its own session uses elsewhere. If the caller
 * leads its session, and may, the session gets the nice value -10, too. */
void session_prefer_soon(void);

/* A condition whose timed waits go by CLOCK_MONOTONIC, so that setting the clock does not make them longer. */
void condition_init_monotonic(pthread_cond_t *condition);
