/* The command line: which command, and what its options say. One thread. */
#pragma once

#include "ctl/commands.h"

/* What reading it came to. */
enum parsed {
        PARSED_RUN,
        PARSED_HELP,    /* of the command, or of gpumemctl as a whole if that is NULL */
        PARSED_VERSION, /* it is asked for */
        PARSED_WRONG,   /* stderr says what is */
};

struct invocation {
        const struct command *command;
        struct arguments arguments;
};

/* Those that every command has; the last has no name. */
extern const struct option options_common[];

/* Of all commands together, each name once; the last has no name. */
#define OPTIONS_MAX 64
void options_join(struct option all[static OPTIONS_MAX]);

/* Reads argv; what it points to stays in use. */
enum parsed options_parse(int argc, char **argv, struct invocation *ret_invocation);

void invocation_deinit(struct invocation *invocation);
