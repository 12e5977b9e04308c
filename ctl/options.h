/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: which command, and what its options say. One thread. */
#pragma once

#include "ctl/core/command.h"

/* The n-th command, in the order of gpumemctl's help; NULL behind the last. */
const struct command *command_at(unsigned n);

/* What reading it came to. */
enum parsed {
        PARSED_RUN,
        PARSED_HELP,    /* of the command, or of gpumemctl as a whole if that is NULL */
        PARSED_VERSION, /* it is asked for */
        PARSED_LIST,    /* options_list is, of the command or of gpumemctl as a whole */
        PARSED_WRONG,   /* stderr says what is */
};

struct invocation {
        const struct command *command;
        bool is_named; /* otherwise it is the command that gpumemctl alone runs */
        struct arguments arguments;
};

/* Reads argv; what it points to stays in use. */
enum parsed options_parse(int argc, char **argv, struct invocation *ret_invocation);

void invocation_deinit(struct invocation *invocation);

/* Prints what a shell may complete, a line each: without a command all commands; options; behind those that take a
 * value "=", and values that can be told. */
void options_list(const struct command *command);
