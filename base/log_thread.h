/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that writes the process's log, so that no other thread waits for stderr: not for a pipe without a
 * reader, and not for a slow file.
 *
 * Lines wait in a ring. A line that finds the ring full is left out and counted, and the log says how many
 * were, as soon as there is room. A signal that ends the process, such as SIGSEGV or SIGABRT, has the lines
 * in the ring written first, as far as stderr takes them. A child of fork has no such thread and writes its
 * lines itself.
 *
 * One in a process. Any thread may log; start and stop are for the main thread. */
#pragma once

/* How many lines may wait, and how long log_thread_stop waits for them. */
#define LOG_THREAD_LINES  256
#define LOG_THREAD_END_MS 1000

/* Begins with the thread; later lines are its. -errno: there is none, and lines are written as before. */
int log_thread_start(void);

/* Waits until all lines are written, but at most LOG_THREAD_END_MS, and ends the thread. Later lines are
 * written at once. No effect without a thread. */
void log_thread_stop(void);
