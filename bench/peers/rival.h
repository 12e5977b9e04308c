/* SPDX-License-Identifier: Apache-2.0 */
/* The compared allocators: gpumemd's library and others for GPU memory, each in a child process that
 * answers orders. One thread.
 *
 * A child prints "ready", or "none REASON" if its allocator is missing on this machine. It then reads
 * orders from its standard input until that ends: a line each, with a word and perhaps an argument. It
 * answers each with a line on standard output: "ok", with a number if one was asked for, or "no REASON".
 * Other lines are ignored, since libraries print text. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "bench/rows.h"

enum rival_kind {
        RIVAL_GPUMEMD,
        RIVAL_HANDLE,           /* gpumemd's calls with the handle of a stream */
        RIVAL_DRIVER,           /* cuMemAlloc */
        RIVAL_ASYNC,            /* cuMemAllocAsync, which cudaMallocAsync is */
        RIVAL_ECHO,             /* a process that only answers messages, see bench/echo.h */
        RIVAL_TORCH_CPP,        /* PyTorch's allocator, from C++ */
        RIVAL_TORCH,            /* from Python */
        RIVAL_TORCH_EXPANDABLE, /* from Python, with expandable segments */
        RIVAL_CUPY,
};

/* The name in rows. */
const char *rival_name(enum rival_kind kind);

struct rival_setup {
        const char *socket_path; /* NULL: the default of gpumem_options */
        const char *scripts;     /* the folder of rivals that are not C; NULL: none */
        const char *folder;      /* for programs that are compiled here */
        uint64_t deadline_ns;    /* no child is waited for longer */
};

/* Name of the compiled program in that folder. */
#define RIVAL_TORCH_PROGRAM "torch_rival"

#define RIVAL_TEXT_MAX 512

struct rival {
        enum rival_kind kind;
        pid_t pid; /* 0: none */
        int to, from;
        uint64_t deadline_ns;
        char text[RIVAL_TEXT_MAX]; /* output after the last whole line */
        unsigned n_text;
        char note[ROW_NOTE_MAX]; /* why the last call failed */
};

#define RIVAL_NULL ((struct rival){.to = -1, .from = -1})

/* Starts a rival without waiting until it is ready: rival_hear_ready waits. A failure is in the note. */
int rival_spawn(enum rival_kind kind, const struct rival_setup *setup, struct rival *ret_rival);
int rival_hear_ready(struct rival *rival, double seconds);

/* Ends the rival's input and waits for its end. Kills it after a while. */
void rival_end(struct rival *rival);

/* Gives one order. -ETIMEDOUT: the rival has been killed. If the answer has no number, it is 0. */
int rival_ask(struct rival *rival, const char *order, double seconds, double *ret_number);

/* The two halves of rival_ask, to ask several rivals at once. */
int rival_tell(struct rival *rival, const char *order);
int rival_hear(struct rival *rival, double seconds, double *ret_number);

/* The main function of a child of this program. `arguments` are those that rival_start passed. Returns the
 * exit status. */
#define RIVAL_OPTION "--rival"
int rival_main(char **arguments);
