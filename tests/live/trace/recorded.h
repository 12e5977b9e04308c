/* SPDX-License-Identifier: Apache-2.0 */
/* Runs programs whose calls are recorded, and reads their traces. A program is a forked child: a process
 * has one trace, which is complete when the process has ended. Failures end the test. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpumem.h"
#include "tests/demo/gpu.h"

/* What programs find out about themselves is told by their exit status. */
#define MUST(condition)                                                               \
        do {                                                                          \
                if (!(condition)) {                                                   \
                        (void)fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
                        _exit(3);                                                     \
                }                                                                     \
        } while (0)

/* A daemon for the test's programs. */
void recorded_start(void);
void recorded_stop(void);

/* The file that the functions below mean, in a folder of the test's own. */
extern char recorded_path[200];
void recorded_name(const char *name);

/* Runs a program with GPUMEM_TRACE set. It must end well; what it says on stderr is kept. */
extern char recorded_said[4096];
void recorded_run(void (*program)(void), const char *trace);

struct sums {
        size_t n_allocated;
        size_t n_freed;
        uint64_t n_live_bytes;
        uint32_t n_streams;
};

/* Reads the file and removes it. Every id is allocated once, and freed at most once and later. */
struct sums recorded_sums(void);

/* For programs: failures end them. */
void recorded_connect(void);
extern struct gpumem_client *recorded_client;
struct gpu *recorded_gpu(void);
struct gpumem_request recorded_request(uint64_t n_bytes, struct gpu *gpu);
void *recorded_alloc(struct gpu *gpu, uint64_t n_bytes);

/* A program that makes more calls than the recorder holds at once, faster than it writes. */
#define HURRY_PAIRS 100001
void recorded_hurry(void);
