/* Which program a rival is, with its arguments and its environment. One thread. */
#pragma once

#include "bench/peers/rival.h"

#define PROGRAM_WORDS_MAX 8
#define PROGRAM_PATH_MAX  512

struct program {
        const char *path; /* looked for in PATH if it is a name */
        const char *arguments[PROGRAM_WORDS_MAX];
        const char **environment;
        char file[PROGRAM_PATH_MAX];
};

/* -ENODEV: there is none, for the reason in the note. It points into itself, and is not moved. */
int program_find(enum rival_kind kind, const struct rival_setup *setup, struct program *ret_program,
                 char note[static ROW_NOTE_MAX]);
void program_deinit(struct program *program);
