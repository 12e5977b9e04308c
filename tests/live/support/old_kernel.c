/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/old_kernel.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define LOAD(field)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FAIL_WITH(code) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))
#define ALLOW           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* A filter step: goes on if both are equal, else skips n steps. */
#define UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (n))

static void install(struct sock_filter *steps, unsigned short n_steps)
{
        struct sock_fprog program = {.len = n_steps, .filter = steps};

        ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void old_kernel_hide(unsigned hidden)
{
        /* The option's number is an int: the lower half of its argument on a little-endian machine. */
        struct sock_filter no_peerpidfd[] = {
                LOAD(nr),
                UNLESS(SYS_getsockopt, 5),
                LOAD(args[1]),
                UNLESS(SOL_SOCKET, 3),
                LOAD(args[2]),
                UNLESS(SO_PEERPIDFD, 1),
                FAIL_WITH(ENOPROTOOPT),
                ALLOW,
        };
        struct sock_filter no_passrights[] = {
                LOAD(nr),
                UNLESS(SYS_setsockopt, 3),
                LOAD(args[2]),
                UNLESS(SO_PASSRIGHTS, 1),
                FAIL_WITH(ENOPROTOOPT),
                ALLOW,
        };
        struct sock_filter no_pidfd_open[] = {
                LOAD(nr),
                UNLESS(SYS_pidfd_open, 1),
                FAIL_WITH(ENOSYS),
                ALLOW,
        };

        if (hidden & HIDE_PASSRIGHTS)
                install(no_passrights, ARRAY_SIZE(no_passrights));
        if (hidden & HIDE_PEERPIDFD)
                install(no_peerpidfd, ARRAY_SIZE(no_peerpidfd));
        if (hidden & HIDE_PIDFD_OPEN)
                install(no_pidfd_open, ARRAY_SIZE(no_pidfd_open));
}

bool pid_namespaces_are_allowed(void)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(unshare(CLONE_NEWPID) ? 1 : 0);
        return waitpid(pid, &status, 0) == pid && status == 0;
}

/* The leak checker at a process's end reads /proc/PID, which is another process in another pid namespace.
 * This tells it. */
static bool is_beside_proc;

int __lsan_is_turned_off(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
        return is_beside_proc;
}

void enter_pid_namespace(void)
{
        const char *options = getenv("ASAN_OPTIONS");
        char more[256];

        (void)snprintf(more, sizeof(more), "%s:detect_leaks=0", options ? options : "");
        ck_assert_int_eq(setenv("ASAN_OPTIONS", more, 1), 0);
        ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
        is_beside_proc = true;
}
