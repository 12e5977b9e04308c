/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl: shows what a daemon holds, and changes what an administrator may change. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/options.h"

static const char help_head[] =
        "Usage: gpumemctl [COMMAND] [OPTION]... | --help | --version    alone: status\n";

static const char help_tail[] =
        "  --socket PATH      default: $GPUMEM_SOCKET, then below /run, $XDG_RUNTIME_DIR\n"
        "  --wait SECONDS     for a gpumemd that does not listen yet; default: 0\n"
        "  --timeout SECONDS  for a gpumemd that does not answer; default: 10\n"
        "gpumemctl help COMMAND says more. Exit: 0 done, 1 failed, 2 usage, 3 no gpumemd\n";

static int show_help(const struct command *command)
{
        if (command) {
                (void)fputs(command->help, stdout);
                return STATUS_OK;
        }
        (void)fputs(help_head, stdout);
        for (unsigned i = 0; (command = command_at(i)); i++)
                (void)printf("  %-12s  %s\n", command->name, command->line);
        (void)fputs(help_tail, stdout);
        return STATUS_OK;
}

static int run(const struct invocation *invocation)
{
        const struct command *command = invocation->command;
        const struct arguments *arguments = &invocation->arguments;
        struct link *link;
        int r, status;

        if (command->link == COMMAND_LINKS)
                return command->run(NULL, arguments);
        r = connect_to_daemon(arguments, &link);
        if (r)
                return report_no_connection(r, arguments);
        status = command->run(link, arguments);
        link_free(link);
        return status;
}

static int answer(enum parsed parsed, const struct invocation *invocation)
{
        switch (parsed) {
        case PARSED_RUN:
                return run(invocation);
        case PARSED_HELP:
                return show_help(invocation->command);
        case PARSED_VERSION:
                (void)puts("gpumemctl " PROJECT_VERSION);
                return STATUS_OK;
        case PARSED_LIST:
                options_list(invocation->command);
                return STATUS_OK;
        case PARSED_WRONG:
                break;
        }
        return STATUS_USAGE;
}

static int report_unwritten(int error, int status)
{
        (void)fprintf(stderr, "gpumemctl: the output could not be written: %s\n", strerror(error));
        return status == STATUS_OK ? STATUS_FAILURE : status;
}

/* The answer is whole before any of it is written: until then nothing but memory can fail, and errno
 * is still that of the writing. */
static int answer_whole(enum parsed parsed, const struct invocation *invocation)
{
        FILE *output = stdout;
        char *text = NULL;
        size_t n_bytes;
        int status, r;

        stdout = open_memstream(&text, &n_bytes);
        if (!stdout) {
                stdout = output;
                return report_unwritten(errno, STATUS_FAILURE);
        }
        status = answer(parsed, invocation);
        r = fclose(stdout);
        stdout = output;
        if (r)
                status = report_unwritten(ENOMEM, status);
        else if (fwrite(text, 1, n_bytes, output) != n_bytes || fflush(output))
                status = report_unwritten(errno, status);
        free(text);
        return status;
}

/* Line by line. A line that could not be written is lost, and why may be known no more. */
static int answer_as_it_comes(enum parsed parsed, const struct invocation *invocation)
{
        int status;

        (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
        status = answer(parsed, invocation);
        if (fflush(stdout))
                return report_unwritten(errno, status);
        return ferror(stdout) ? report_unwritten(EIO, status) : status;
}

int main(int argc, char **argv)
{
        CLEANUP(invocation_deinit)
        struct invocation invocation = {.command = NULL};
        enum parsed parsed;

        log_setup("gpumemctl", LOG_WARNING);
        (void)setlocale(LC_CTYPE, "");
        if (fds_fill_standard())
                return report_unwritten(errno, STATUS_FAILURE);
        parsed = options_parse(argc, argv, &invocation);
        if (parsed == PARSED_RUN && invocation.arguments.answer == ANSWER_AS_IT_COMES)
                return answer_as_it_comes(parsed, &invocation);
        return answer_whole(parsed, &invocation);
}
