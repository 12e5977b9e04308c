/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/sharer.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(int orders, int answers, enum sharer_kind kind, const char *uid)
{
        const char *program = getenv("GPUMEM_TEST_SHARER");
        const char *arguments[5] = {program};
        unsigned n = 1;

        if (kind == SHARER_WITHOUT_CUDA) {
                arguments[n++] = "--without-cuda";
                (void)setenv("GPUMEM_CUDA_LIBRARY", "/nonexistent", 1);
        }
        if (uid) {
                arguments[n++] = "--uid";
                arguments[n++] = uid;
        }
        if (dup2(orders, STDIN_FILENO) >= 0 && dup2(answers, STDOUT_FILENO) >= 0)
                (void)execv(program, (char *const *)arguments);
        _exit(127);
}

void sharer_start(struct sharer *sharer, enum sharer_kind kind, const char *uid)
{
        int orders[2], answers[2];

        ck_assert_ptr_nonnull(getenv("GPUMEM_TEST_SHARER"));
        ck_assert_int_eq(pipe2(orders, O_CLOEXEC), 0);
        ck_assert_int_eq(pipe2(answers, O_CLOEXEC), 0);
        sharer->pid = fork();
        ck_assert_int_ge(sharer->pid, 0);
        if (sharer->pid == 0)
                run(orders[0], answers[1], kind, uid);
        (void)close(orders[0]);
        (void)close(answers[1]);
        sharer->orders = fdopen(orders[1], "w");
        sharer->answers = fdopen(answers[0], "r");
        ck_assert(sharer->orders && sharer->answers);
}

static PRINTF_LIKE(2, 0) int tell(struct sharer *sharer, const char *format, va_list arguments)
{
        char line[160], *end;
        long code;

        (void)vfprintf(sharer->orders, format, arguments);
        (void)fputc('\n', sharer->orders);
        (void)fflush(sharer->orders);
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), sharer->answers));
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ok", 2) == 0) {
                (void)snprintf(sharer->answer, sizeof(sharer->answer), "%s",
                               line[2] ? line + 3 : "");
                return 0;
        }
        ck_assert_msg(strncmp(line, "error ", 6) == 0, "%s", line);
        code = strtol(line + 6, &end, 10);
        ck_assert_msg(*end == ':' && code != 0, "%s", line);
        return (int)code;
}

int sharer_tell(struct sharer *sharer, const char *format, ...)
{
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = tell(sharer, format, arguments);
        va_end(arguments);
        return r;
}

const char *sharer_must(struct sharer *sharer, const char *format, ...)
{
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = tell(sharer, format, arguments);
        va_end(arguments);
        ck_assert_msg(r == 0, "%s: %d", format, r);
        return sharer->answer;
}

static int close_and_wait(struct sharer *sharer)
{
        int status = -1;

        (void)fclose(sharer->orders);
        ck_assert_int_eq(waitpid(sharer->pid, &status, 0), sharer->pid);
        (void)fclose(sharer->answers);
        sharer->pid = 0;
        return status;
}

void sharer_end(struct sharer *sharer)
{
        if (!sharer->pid)
                return;
        ck_assert_int_eq(close_and_wait(sharer), 0);
}

void sharer_kill(struct sharer *sharer)
{
        ck_assert_int_eq(kill(sharer->pid, SIGKILL), 0);
        ck_assert_int_eq(close_and_wait(sharer), SIGKILL);
}
