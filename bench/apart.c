/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/apart.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

/* The rows go through the pipe as they are; it holds all of them at once. */
static void run_and_tell(apart_run *run, const struct options *options, int fd)
{
        struct rows rows = ROWS_NULL;
        int r = run(options, &rows);
        size_t n_bytes = rows.n * sizeof(*rows.rows);

        if (rows.n && write(fd, rows.rows, n_bytes) != (ssize_t)n_bytes)
                r = -EIO;
        _exit(r ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int read_rows(int fd, struct rows *rows)
{
        struct row row;
        int r = 0;

        while (!r && read(fd, &row, sizeof(row)) == (ssize_t)sizeof(row))
                r = rows_add(rows, &row);
        return r;
}

int apart_measure(apart_run *run, const struct options *options, struct rows *rows)
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
                run_and_tell(run, options, fds[1]);
        (void)close(fds[1]);
        if (pid < 0)
                return -EAGAIN;
        r = read_rows(in, rows);
        if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
                r = r ? r : -ECHILD;
        return r;
}
