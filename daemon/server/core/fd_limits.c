/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/fd_limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"

/* A socket, a pidfd, and the board's file. */
#define SESSION_N_FDS 3

#define ARRIVALS_A_USER 1024

#define FEW_FDS 32

/* The daemon's own and the driver's, and what is made ahead. With fewer libuv ends the process. */
#define FDS_AT_LEAST 128

/* Used where the system sets no limit. */
#define FDS_AT_MOST 1000000

#define QUEUED_BYTES_OF_ALL  (64 * MIB)
#define QUEUED_BYTES_OF_EACH (8 * MIB)

static unsigned max_fds(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > FDS_AT_MOST)
                return FDS_AT_MOST;
        return (unsigned)limit.rlim_cur;
}

/* The kernel doubles a table that is too small. If there are threads it first waits until each CPU has run another task,
 * 10 to 40 ms, and no thread gets an fd meanwhile. */
static void make_table(void)
{
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)max_fds() - 1);

        closep(&fd);
}

/* Every block needs one fd and every client three, so the usual soft limit of 1024 is too low. */
int fd_limits_raise(void)
{
        struct rlimit limit;
        int r = 0;

        if (getrlimit(RLIMIT_NOFILE, &limit))
                return err_errno();
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
                r = err_errno();
        make_table();
        return r;
}

/* A quarter of each kind is kept for users that have no more than this: a connection, the fds of one frame, some frames.
 * It is little, so that the quarter is enough for many users. No frame has more fds than WELCOME. */
#define KEPT_PART 4

static const uint64_t least[ALLOWANCE_N_KINDS] = {
        [ALLOWANCE_CONNECTIONS] = 1,
        [ALLOWANCE_IN_FLIGHT] = 2,
        [ALLOWANCE_QUEUED_FDS] = 2,
        [ALLOWANCE_QUEUED_BYTES] = 16 * KIB,
};

/* Half of the fds are for sessions, three sixteenths for queued replies, as many for blocks, and one for lanes. What is
 * left is for files that are made ahead, and for those that the daemon opens. The kernel counts fds in flight separately,
 * against a limit of the same size. */
int fd_limits_init(struct server *server)
{
        struct allowances *all = &server->accounts.allowances;

        if (max_fds() < FDS_AT_LEAST)
                return -EMFILE;

        all->max[ALLOWANCE_CONNECTIONS] = max_fds() / 2 / SESSION_N_FDS;
        all->max[ALLOWANCE_IN_FLIGHT] = max_fds() / 2;
        all->max[ALLOWANCE_QUEUED_FDS] = (uint64_t)max_fds() * 3 / 16;
        all->max[ALLOWANCE_QUEUED_BYTES] = QUEUED_BYTES_OF_ALL;
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                all->kept[kind] = all->max[kind] / KEPT_PART;
                all->least[kind] = least[kind];
                all->max_each[kind] = all->max_tenants[kind] = UINT64_MAX;
        }
        all->max_each[ALLOWANCE_QUEUED_BYTES] = QUEUED_BYTES_OF_EACH;
        all->max_tenants[ALLOWANCE_QUEUED_BYTES] = USER_TIMES * QUEUED_BYTES_OF_EACH;
        return 0;
}

/* At most as many as there may be sessions: each has the fds of one, but waits only for a moment. One container may have
 * half of them (listener.c). With fewer, processes that connect at one time are refused though they may be connected. */
unsigned fd_limits_max_arrivals(void)
{
        unsigned n = max_fds() / 2 / SESSION_N_FDS;

        if (n > ARRIVALS_A_USER)
                return ARRIVALS_A_USER;
        return n ? n : 1;
}

bool fd_limits_are_few(int fd)
{
        return (unsigned)fd + FEW_FDS >= max_fds();
}

uint64_t fd_limits_max_blocks(void)
{
        return (uint64_t)max_fds() * 3 / 16;
}

/* Half of these may be sockets: each has three fds beside the session's, and those of one frame. */
unsigned fd_limits_max_lane_links(void)
{
        return max_fds() / 64;
}

void fd_limits_set_each(struct server *server, const struct user_rule *rule)
{
        struct accounts *accounts = &server->accounts;

        accounts->allowances.max_each[ALLOWANCE_CONNECTIONS] = rule->n_connections;
        accounts->allowances.max_tenants[ALLOWANCE_CONNECTIONS] = USER_TIMES * rule->n_connections;
}
