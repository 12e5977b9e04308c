/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/world.h"

#include <grp.h>
#include <sys/mman.h>

static void become(uid_t uid)
{
        if (uid == geteuid())
                return;
        ck_assert_int_eq(setgroups(0, NULL), 0);
        ck_assert_int_eq(setresgid(uid, uid, uid), 0);
        ck_assert_int_eq(setresuid(uid, uid, uid), 0);
}

void as_user(uid_t uid, void (*act)(const void *argument), const void *argument)
{
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                become(uid);
                act(argument);
                _exit(EXIT_SUCCESS);
        }
        child_await(pid, 0);
}

struct gpumem_refusal refusal_of(struct gpumem_client *client)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        ck_assert_int_eq(gpumem_last_refusal(client, &refusal), 0);
        return refusal;
}

#define LOG_BYTES_MAX 65536

static int log_fd;

void log_begin(void)
{
        log_fd = memfd_create("log", MFD_CLOEXEC);
        ck_assert_int_ge(dup2(log_fd, STDERR_FILENO), 0);
}

const char *log_text(void)
{
        static char text[LOG_BYTES_MAX];
        ssize_t n_bytes = pread(log_fd, text, sizeof(text) - 1, 0);

        ck_assert_int_ge(n_bytes, 0);
        text[n_bytes] = '\0';
        return text;
}

void log_await(const char *part)
{
        for (unsigned i = 0; i < AWAIT_MS && !strstr(log_text(), part); i++)
                sleep_ms(1);
        must_contain(log_text(), part);
}

void must_contain(const char *text, const char *part)
{
        ck_assert_msg(strstr(text, part), "\"%s\" is not in: %s", part, text);
}
