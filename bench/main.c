/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-bench: what gpumemd and its client library cost, beside others on the same machine. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "bench/commands.h"
#include "bench/peer.h"
#include "bench/peers/rival.h"

static const char help_head[] =
        "Usage: gpumem-bench [OPTION]... COMMAND [FILE]..., with a gpumemd that runs\n";

static const char help_tail[] =
        "  --json --output FILE --quick --socket PATH --seconds --only --version --help\n"
        "  --streams --lag --line --pinned --slots: trace, node; --real; --seed; --peers\n"
        "Exit status: 0 bounds are kept, 1 one is not, 2 wrong option, 3 not measured\n";

enum exit_status {
        STATUS_OK = 0,
        STATUS_MISSED = 1,
        STATUS_USAGE = 2,
        STATUS_FAILURE = 3,
};

enum option_id {
        OPTION_JSON = 1,
        OPTION_OUTPUT,
        OPTION_QUICK,
        OPTION_STREAMS,
        OPTION_SEED,
        OPTION_LAG,
        OPTION_LINE,
        OPTION_PINNED,
        OPTION_SLOTS,
        OPTION_REAL,
        OPTION_PEERS,
        OPTION_ONLY,
        OPTION_SECONDS,
        OPTION_SOCKET,
        OPTION_HELP,
        OPTION_VERSION,
};

static const struct option long_options[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        {"output", required_argument, NULL, OPTION_OUTPUT},
        {"quick", no_argument, NULL, OPTION_QUICK},
        {"streams", required_argument, NULL, OPTION_STREAMS},
        {"seed", required_argument, NULL, OPTION_SEED},
        {"lag", required_argument, NULL, OPTION_LAG},
        {"line", required_argument, NULL, OPTION_LINE},
        {"pinned", no_argument, NULL, OPTION_PINNED},
        {"slots", required_argument, NULL, OPTION_SLOTS},
        {"real", no_argument, NULL, OPTION_REAL},
        {"peers", required_argument, NULL, OPTION_PEERS},
        {"only", required_argument, NULL, OPTION_ONLY},
        {"seconds", required_argument, NULL, OPTION_SECONDS},
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"help", no_argument, NULL, OPTION_HELP},
        {"version", no_argument, NULL, OPTION_VERSION},
        {NULL, 0, NULL, 0},
};

struct invocation {
        const struct command *command;
        const char *output_path;
        enum { PRINT_TABLE, PRINT_JSON } print;
        struct options options;
};

enum parsed { PARSED_RUN, PARSED_DONE, PARSED_WRONG };

static enum parsed show_help(void)
{
        (void)fputs(help_head, stdout);
        for (unsigned i = 0; i < n_commands; i++)
                (void)printf("  %-8s  %s\n", commands[i].name, commands[i].help);
        (void)fputs(help_tail, stdout);
        return PARSED_DONE;
}

/* Parses a decimal number in that range. */
static enum parsed take_number(const char *option, const char *text, double least, double most,
                               double *ret_number)
{
        char *end;
        double number = strtod(text, &end);

        if (!*text || *end || !(number >= least && number <= most)) {
                (void)fprintf(stderr, "gpumem-bench: invalid %s \"%s\" (expected %.10g to %.10g)\n",
                              option, text, least, most);
                return PARSED_WRONG;
        }
        *ret_number = number;
        return PARSED_RUN;
}

static enum parsed take_whole(const char *option, const char *text, double most,
                              unsigned *ret_number)
{
        double number = 0;
        enum parsed parsed = take_number(option, text, 1, most, &number);

        if (parsed == PARSED_RUN && (unsigned)number != number) {
                (void)fprintf(stderr, "gpumem-bench: invalid %s \"%s\" (expected a whole number)\n",
                              option, text);
                return PARSED_WRONG;
        }
        if (parsed == PARSED_RUN)
                *ret_number = (unsigned)number;
        return parsed;
}

static enum parsed take_option(int id, const char *value, struct invocation *invocation)
{
        switch (id) {
        case OPTION_JSON:
                invocation->print = PRINT_JSON;
                return PARSED_RUN;
        case OPTION_OUTPUT:
                invocation->output_path = value;
                return PARSED_RUN;
        case OPTION_QUICK:
                invocation->options.effort = EFFORT_QUICK;
                return PARSED_RUN;
        case OPTION_STREAMS:
                return take_whole("--streams", value, 256, &invocation->options.n_streams);
        case OPTION_SEED:
                return take_whole("--seed", value, 999999, &invocation->options.first_seed);
        case OPTION_LAG:
                return take_number("--lag", value, 0, 1e6, &invocation->options.lag_ms);
        case OPTION_LINE:
                return take_number("--line", value, 0.001, 1e6, &invocation->options.us_per_line);
        case OPTION_PINNED:
                invocation->options.memory = REPLAY_PINNED;
                return PARSED_RUN;
        case OPTION_SLOTS:
                return take_whole("--slots", value, NODE_N_SLOTS, &invocation->options.n_slots);
        case OPTION_REAL:
                invocation->options.run_real = true;
                return PARSED_RUN;
        case OPTION_PEERS:
                invocation->options.peers_path = value;
                return PARSED_RUN;
        case OPTION_ONLY:
                invocation->options.only = value;
                return PARSED_RUN;
        case OPTION_SECONDS:
                return take_number("--seconds", value, 1, 1e6, &invocation->options.seconds);
        case OPTION_SOCKET:
                invocation->options.socket_path = value;
                return PARSED_RUN;
        case OPTION_HELP:
                return show_help();
        case OPTION_VERSION:
                (void)puts("gpumem-bench " PROJECT_VERSION);
                return PARSED_DONE;
        default:
                (void)fprintf(stderr, "gpumem-bench: see gpumem-bench --help\n");
                return PARSED_WRONG;
        }
}

static const struct command *find_command(const char *name)
{
        for (unsigned i = 0; i < n_commands; i++) {
                if (strcmp(name, commands[i].name) == 0)
                        return &commands[i];
        }
        return NULL;
}

static void tell_files(const struct command *command)
{
        (void)fprintf(stderr, "gpumem-bench: %s takes ", command->name);
        if (!command->n_files_max)
                (void)fputs("no files\n", stderr);
        else if (command->run == command_plot)
                (void)fputs("files that peers --output wrote\n", stderr);
        else if (command->n_files_max == 1)
                (void)fputs("one file, a trace\n", stderr);
        else
                (void)fprintf(stderr, "%u to %u files, which are traces\n", command->n_files_min,
                              command->n_files_max);
}

/* The output of plot is a picture, not rows: in FILE it would replace rows that are there. */
static enum parsed check_output(const struct invocation *invocation)
{
        if (invocation->command->run != command_plot ||
            (!invocation->output_path && invocation->print == PRINT_TABLE))
                return PARSED_RUN;
        (void)fputs("gpumem-bench: plot takes neither --output nor --json: the picture goes to "
                    "standard output\n",
                    stderr);
        return PARSED_WRONG;
}

static enum parsed check_options(const struct invocation *invocation)
{
        if (invocation->command->run == command_peers &&
            command_peers_check(invocation->options.only))
                return PARSED_WRONG;
        return check_output(invocation);
}

/* `words`: the command and its files. */
static enum parsed take_command(char **words, unsigned n_words, struct invocation *invocation)
{
        const struct command *command;

        if (!n_words) {
                (void)fprintf(stderr, "gpumem-bench: needs a command; see gpumem-bench --help\n");
                return PARSED_WRONG;
        }
        command = find_command(words[0]);
        if (!command) {
                (void)fprintf(stderr,
                              "gpumem-bench: unknown command \"%s\"; see gpumem-bench --help\n",
                              words[0]);
                return PARSED_WRONG;
        }
        invocation->command = command;
        invocation->options.files = words + 1;
        invocation->options.n_files = n_words - 1;
        if (n_words - 1 >= command->n_files_min && n_words - 1 <= command->n_files_max)
                return check_options(invocation);
        tell_files(command);
        return PARSED_WRONG;
}

static enum parsed parse(int argc, char **argv, struct invocation *invocation)
{
        static char program[] = "gpumem-bench";
        int id;

        /* getopt begins its messages with argv[0]. */
        argv[0] = program;
        while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
                enum parsed parsed = take_option(id, optarg, invocation);

                if (parsed != PARSED_RUN)
                        return parsed;
        }
        return take_command(argv + optind, (unsigned)(argc - optind), invocation);
}

static int write_file(const struct rows *rows, const char *path)
{
        FILE *file = fopen(path, "we");
        int r;

        if (!file)
                return err_errno();
        r = rows_print_json(rows, file);
        return fclose(file) == EOF && !r ? err_errno() : r;
}

/* Reports the rows that were measured, also after a failure. */
static int report(const struct invocation *invocation, const struct rows *rows)
{
        const char *path = invocation->output_path;
        int r = invocation->print == PRINT_JSON ? rows_print_json(rows, stdout)
                                                : rows_print_table(rows, stdout);

        if (!r && (fflush(stdout) == EOF || ferror(stdout)))
                r = err_errno();
        if (r)
                (void)fprintf(stderr, "gpumem-bench: cannot write the results: %s\n", strerror(-r));
        if (r || !path)
                return r;
        r = write_file(rows, path);
        if (r)
                (void)fprintf(stderr, "gpumem-bench: %s: %s\n", path, strerror(-r));
        return r;
}

static enum exit_status run(const struct invocation *invocation)
{
        CLEANUP(rows_deinit)
        struct rows rows = ROWS_NULL;
        int r, r_report;

        r = invocation->command->run(&invocation->options, &rows);
        if (r)
                (void)fprintf(stderr, "gpumem-bench: %s: measurement failed\n",
                              invocation->command->name);
        r_report = report(invocation, &rows);
        if (r || r_report)
                return STATUS_FAILURE;
        return rows_count_missed(&rows) ? STATUS_MISSED : STATUS_OK;
}

int main(int argc, char **argv)
{
        struct invocation invocation = {.command = NULL};

        log_setup("gpumem-bench", LOG_WARNING);
        if (argc > 1 && strcmp(argv[1], PEER_OPTION) == 0)
                return peer_main(argv + 2);
        if (argc > 1 && strcmp(argv[1], RIVAL_OPTION) == 0)
                return rival_main(argv + 2);
        switch (parse(argc, argv, &invocation)) {
        case PARSED_RUN:
                return run(&invocation);
        case PARSED_DONE:
                return STATUS_OK;
        case PARSED_WRONG:
                break;
        }
        return STATUS_USAGE;
}
