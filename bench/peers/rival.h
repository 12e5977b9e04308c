/* SPDX-License-Identifier: Apache-2.0 */
/* Who is compared: gpumemd's library and others that serve GPU memory, each in a child process that answers orders. One
 * thread.
 *
 * A child says "ready", or "none REASON" if what it stands for is not on this machine. Then it reads orders on its
 * standard input, a line each, a word and perhaps an argument, until that ends, and answers each by a line on its
 * standard output: "ok", with a number if one was asked for, or "no REASON". What does not begin so is passed over:
 * libraries print things. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "bench/rows.h"

enum rival_kind {
        RIVAL_GPUMEMD,
        RIVAL_DRIVER,           /* cuMemAlloc */
        RIVAL_ASYNC,            /* cuMemAllocAsync, which cudaMallocAsync is */
        RIVAL_TORCH_CPP,        /* PyTorch's allocator, from C++ */
        RIVAL_TORCH,            /* from Python */
        RIVAL_TORCH_EXPANDABLE, /* from Python, with expandable segments */
        RIVAL_CUPY,
};

/* As it stands in the names of rows. */
const char *rival_name(enum rival_kind kind);

struct rival_setup {
        const char *socket_path; /* NULL: as gpumem_options has it */
        const char *scripts;     /* the folder of those that are not C; NULL: there are none */
        const char *folder;      /* for what is compiled here */
        uint64_t deadline_ns;    /* no child is waited for any longer */
};

/* In that folder, once it is compiled. */
#define RIVAL_TORCH_PROGRAM "torch_rival"

#define RIVAL_TEXT_MAX 512

struct rival {
        enum rival_kind kind;
        pid_t pid; /* 0: none */
        int to, from;
        uint64_t deadline_ns;
        char text[RIVAL_TEXT_MAX]; /* what came after the last whole line */
        unsigned n_text;
        char note[ROW_NOTE_MAX]; /* why the last call failed */
};

#define RIVAL_NULL ((struct rival){.to = -1, .from = -1})

/* Starts one and does not wait until it is ready: rival_hear_ready does. A failure is in the note. */
int rival_spawn(enum rival_kind kind, const struct rival_setup *setup, struct rival *ret_rival);
int rival_hear_ready(struct rival *rival, double seconds);

/* Its input ends, and it is waited for; a while, then it is killed. */
void rival_end(struct rival *rival);

/* One order. -ETIMEDOUT: it has been killed. A number that the answer does not have is 0. */
int rival_ask(struct rival *rival, const char *order, double seconds, double *ret_number);

/* The halves of that, for those who ask several at once. */
int rival_tell(struct rival *rival, const char *order);
int rival_hear(struct rival *rival, double seconds, double *ret_number);

/* What a child of this program does. `arguments` are those that rival_start gave it. Returns the exit status. */
#define RIVAL_OPTION "--rival"
int rival_main(char **arguments);
