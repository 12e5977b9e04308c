/* SPDX-License-Identifier: Apache-2.0 */
/* What a command of gpumemctl is: its options, its help and its function. The commands are listed in command.def. One
 * thread. */
#pragma once

#include <getopt.h>
#include <stdint.h>

#include "client/connection/link.h"

enum exit_status {
        STATUS_OK = 0,
        STATUS_FAILURE = 1,       /* the daemon refused, or something failed */
        STATUS_USAGE = 2,         /* wrong option or command */
        STATUS_NO_DAEMON = 3,     /* the daemon cannot be reached, or does not answer */
        STATUS_NO_CONTAINERS = 4, /* of reclaim: tenants are not told apart by them */
};

/* Without --wide a table of usual figures fits 80 columns. */
enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON };

/* How an answer gets to standard output: in one piece when all of it is known, so that a failure leaves no
 * half of it; or as it comes, which is for what goes on, or for a terminal. */
enum answer { ANSWER_WHOLE, ANSWER_AS_IT_COMES };

/* What the command line said. */
struct arguments {
        const char *socket_path; /* as in proto/address.h */
        unsigned wait_s;
        unsigned timeout_s; /* 0: the library's own */
        enum output output;
        uint32_t pool;      /* PROTO_ALL_POOLS: every one */
        uint32_t scope;     /* PROTO_SCOPE_TENANT or PROTO_SCOPE_NODE */
        enum answer answer; /* the command's, unless an option says otherwise */
        void *own;          /* the command's n_own_bytes, zero before any option */
};

/* Values of options; a command's own ones begin at OPTION_OWN and are given to its `take`. */
enum option_id {
        OPTION_JSON = 1,
        OPTION_WIDE,
        OPTION_POOL,
        OPTION_TENANT,
        OPTION_OWN = 64,
};

#define COMMAND_OPTION_JSON   ((struct option){"json", no_argument, NULL, OPTION_JSON})
#define COMMAND_OPTION_WIDE   ((struct option){"wide", no_argument, NULL, OPTION_WIDE})
#define COMMAND_OPTION_POOL   ((struct option){"pool", required_argument, NULL, OPTION_POOL})
#define COMMAND_OPTION_TENANT ((struct option){"tenant", no_argument, NULL, OPTION_TENANT})
#define COMMAND_OPTIONS_END   ((struct option){NULL, 0, NULL, 0})

enum command_link {
        COMMAND_IS_LINKED, /* run() gets a connection, or is not called */
        COMMAND_LINKS,     /* it gets NULL, and calls connect_to_daemon */
};

/* What may stand behind an option, for shells that complete: words, or columns. Among the words @file, @user and @pool
 * stand for names that the shell finds. */
struct row_list;
struct command_value {
        const char *option;
        const char *words;           /* with a space between them */
        const struct row_list *list; /* or its columns, as filter_list_columns has them */
};

#define COMMAND_VALUE_KINDS "@kinds" /* as event_rows_list_kinds has them */
#define COMMAND_VALUES_END  ((struct command_value){NULL, NULL, NULL})

struct command {
        const char *name;
        const char *line; /* of gpumemctl --help */
        const char *help; /* its own; fits 24x80 */
        /* Besides --socket, --wait, --timeout, --help and --version, which all have. An option that several
         * commands have takes a value in all or in none of them. */
        const struct option *options;
        /* Of those whose values can be told; the last has no option. May be NULL. */
        const struct command_value *values;
        /* 0, or -EINVAL when stderr says what is wrong and what is allowed. May be NULL. */
        int (*take)(int id, const char *value, struct arguments *arguments);
        /* The process's exit status. */
        int (*run)(struct link *link, const struct arguments *arguments);
        size_t n_own_bytes;
        enum answer answer;
        enum command_link link;
};

#define COMMAND(name) extern const struct command name##_command;
#include "ctl/core/command.def"
#undef COMMAND
