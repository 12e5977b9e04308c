#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "bench/commands.h"

/* In the child: rows go into the pipe as they are, less than it holds at once. */
static void run_and_tell(const struct command *command, const struct options *options, int fd)
{
        struct rows rows = ROWS_NULL;
        int r = command->run(options, &rows);
        size_t n_bytes = rows.n * sizeof(*rows.rows);

        if (rows.n && write(fd, rows.rows, n_bytes) != (ssize_t)n_bytes)
                r = -EIO;
        _exit(r ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int read_rows(int fd, struct rows *rows)
{
        struct row row;
        ssize_t n;
        int r = 0;

        while (!r && (n = read(fd, &row, sizeof(row))) == (ssize_t)sizeof(row))
                r = rows_add(rows, &row);
        return r;
}

static int run_apart(const struct command *command, const struct options *options,
                     struct rows *rows)
{
        CLEANUP(closep)
        int in = -1;
        int fds[2], status, r;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return err_errno();
        in = fds[0];
        (void)fflush(NULL);
        pid = fork();
        if (pid == 0)
                run_and_tell(command, options, fds[1]);
        (void)close(fds[1]);
        if (pid < 0)
                return -EAGAIN;
        r = read_rows(in, rows);
        if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
                r = r ? r : -ECHILD;
        return r;
}

int command_all(const struct options *options, struct rows *rows)
{
        int r = 0;

        for (unsigned i = 0; i < n_commands; i++) {
                int r_one;

                if (commands[i].run == command_all || commands[i].n_files_min > options->n_files)
                        continue;
                (void)fprintf(stderr, "gpumem-bench: %s\n", commands[i].name);
                r_one = run_apart(&commands[i], options, rows);
                r = r ? r : r_one;
        }
        return r;
}
