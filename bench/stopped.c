/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stopped.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "bench/bare.h"
#include "bench/target.h"
#include "driver/vmm.h"
#include "proto/board.h"

struct order {
        uint32_t n_blocks; /* 0: let go of all blocks */
        uint64_t n_bytes;
};

struct block {
        struct message_leased lease;
        uint64_t address;
};

/* State of the process itself. */
struct holder {
        struct bare bare;
        struct target target;
        unsigned n_blocks;
        struct block blocks[STOPPED_BLOCKS_MAX];
};

static int map_block(struct holder *holder, struct block *block, int fd)
{
        const struct cuda *cuda = &holder->target.cuda;
        uint64_t handle, n_bytes = block->lease.n_bytes;
        int r = vmm_import(cuda, fd, &handle);

        if (r)
                return r;
        r = vmm_reserve(cuda, n_bytes, &block->address);
        if (!r)
                r = vmm_map(cuda, holder->target.device, block->address, n_bytes, handle);
        (void)vmm_release(cuda, handle);
        return r;
}

static int hold_one(struct holder *holder, uint64_t n_bytes)
{
        struct block *block = &holder->blocks[holder->n_blocks];
        CLEANUP(closep)
        int fd = -1;
        int r = bare_lease(&holder->bare, n_bytes, &block->lease, &fd);

        if (!r)
                r = map_block(holder, block, fd);
        if (r)
                return r;
        holder->n_blocks++;
        return board_step(&holder->bare.words[block->lease.slot], block->lease.lease, BOARD_BUSY,
                          BOARD_IDLE)
                       ? 0
                       : -EPROTO;
}

static int let_go_one(struct holder *holder, const struct block *block)
{
        const struct cuda *cuda = &holder->target.cuda;
        int r;

        if (!board_is(&holder->bare.words[block->lease.slot], block->lease.lease, BOARD_REVOKED))
                return -ENOTRECOVERABLE;
        r = vmm_unmap(cuda, block->address, block->lease.n_bytes);
        if (!r)
                r = vmm_unreserve(cuda, block->address, block->lease.n_bytes);
        return r ? r : bare_unmapped(&holder->bare, block->lease.lease);
}

static int obey(struct holder *holder, const struct order *order)
{
        int r = 0;

        for (uint32_t i = 0; i < order->n_blocks && !r; i++)
                r = hold_one(holder, order->n_bytes);
        if (order->n_blocks)
                return r;
        while (holder->n_blocks && !r)
                r = let_go_one(holder, &holder->blocks[--holder->n_blocks]);
        return r ? r : bare_settle(&holder->bare);
}

/* Serves until the other end is closed. */
static void serve(const struct options *options, int fd)
{
        struct holder holder = {.bare = BARE_NULL, .target = TARGET_NULL};
        struct order order;
        int r = target_init(options, &holder.target);

        if (!r)
                r = target_check("no link to gpumemd", bare_init(options, &holder.bare));
        while (send(fd, &r, sizeof(r), MSG_NOSIGNAL) == sizeof(r) &&
               recv(fd, &order, sizeof(order), 0) == sizeof(order))
                r = r ? r : obey(&holder, &order);
        bare_deinit(&holder.bare);
        target_deinit(&holder.target);
}

static int answer_of(struct stopped *stopped)
{
        int r;

        return recv(stopped->fd, &r, sizeof(r), 0) == sizeof(r) ? r : -EPIPE;
}

static int tell(struct stopped *stopped, struct order order)
{
        if (send(stopped->fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order))
                return -EPIPE;
        return answer_of(stopped);
}

int stopped_init(const struct options *options, struct stopped *ret_stopped)
{
        struct stopped stopped = STOPPED_NULL;
        int fds[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                return err_errno();
        stopped.fd = fds[0];
        stopped.pid = fork();
        if (stopped.pid == 0) {
                (void)close(fds[0]);
                serve(options, fds[1]);
                _exit(EXIT_SUCCESS);
        }
        (void)close(fds[1]);
        r = stopped.pid < 0 ? -EAGAIN : answer_of(&stopped);
        if (r)
                stopped_deinit(&stopped);
        else
                *ret_stopped = stopped;
        return r;
}

void stopped_deinit(struct stopped *stopped)
{
        closep(&stopped->fd);
        if (stopped->pid > 0) {
                (void)kill(stopped->pid, SIGCONT);
                (void)waitpid(stopped->pid, NULL, 0);
        }
        *stopped = STOPPED_NULL;
}

int stopped_hold(struct stopped *stopped, uint32_t n_blocks, uint64_t n_bytes)
{
        int status, r = tell(stopped, (struct order){n_blocks, n_bytes});

        if (r)
                return r;
        if (kill(stopped->pid, SIGSTOP) < 0 || waitpid(stopped->pid, &status, WUNTRACED) < 0)
                return err_errno();
        return WIFSTOPPED(status) ? 0 : -ECHILD;
}

int stopped_let_go(struct stopped *stopped)
{
        if (kill(stopped->pid, SIGCONT) < 0)
                return err_errno();
        return tell(stopped, (struct order){.n_blocks = 0});
}
