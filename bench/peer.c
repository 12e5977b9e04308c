/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

static const struct {
        const char *name;
        const char *library; /* NULL: none is needed */
        const char *package;
} allocators[] = {
        [PEER_MIMALLOC] = {"mimalloc", "libmimalloc.so.2", "libmimalloc2.0"},
        [PEER_JEMALLOC] = {"jemalloc", "libjemalloc.so.2", "libjemalloc2"},
        [PEER_GLIBC] = {"glibc", NULL, NULL},
};

const char *peer_name(enum peer_allocator allocator)
{
        return allocators[allocator].name;
}

/* The child's ends become its standard input and output. */
static int spawn(char **arguments, int request_fd, int answer_fd, pid_t *ret_pid)
{
        posix_spawn_file_actions_t actions;
        int r;

        if (posix_spawn_file_actions_init(&actions))
                return -ENOMEM;
        r = posix_spawn_file_actions_adddup2(&actions, request_fd, STDIN_FILENO);
        if (!r)
                r = posix_spawn_file_actions_adddup2(&actions, answer_fd, STDOUT_FILENO);
        if (!r)
                r = posix_spawn(ret_pid, "/proc/self/exe", &actions, NULL, arguments, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
}

/* LD_PRELOAD is set for the child only. */
static int spawn_under(const char *library, char **arguments, int request_fd, int answer_fd,
                       pid_t *ret_pid)
{
        int r;

        if (library && setenv("LD_PRELOAD", library, 1))
                return err_errno();
        r = spawn(arguments, request_fd, answer_fd, ret_pid);
        (void)unsetenv("LD_PRELOAD");
        return r;
}

static int open_pipes(int request_fds[2], int answer_fds[2])
{
        if (pipe2(request_fds, O_CLOEXEC) < 0 || pipe2(answer_fds, O_CLOEXEC) < 0)
                return err_errno();
        return 0;
}

static int start(enum peer_allocator allocator, char **arguments, struct peer *ret_peer)
{
        CLEANUP(closep)
        int request_in = -1;
        CLEANUP(closep)
        int request_out = -1;
        CLEANUP(closep)
        int answer_in = -1;
        CLEANUP(closep)
        int answer_out = -1;
        int request_fds[2] = {-1, -1}, answer_fds[2] = {-1, -1};
        struct peer peer = PEER_NULL;
        int r;

        r = open_pipes(request_fds, answer_fds);
        request_in = request_fds[0];
        request_out = request_fds[1];
        answer_in = answer_fds[0];
        answer_out = answer_fds[1];
        if (!r)
                r = spawn_under(allocators[allocator].library, arguments, request_in, answer_out,
                                &peer.pid);
        if (r)
                return r;
        peer.requests = fdopen(steal_fd(&request_out), "w");
        peer.answers = fdopen(steal_fd(&answer_in), "r");
        if (!peer.requests || !peer.answers) {
                peer_deinit(&peer);
                return -ENOMEM;
        }
        *ret_peer = peer;
        return 0;
}

/* Its first line names the allocator that it found itself under. */
static int check_name(struct peer *peer, enum peer_allocator allocator)
{
        char line[32];

        if (!fgets(line, sizeof(line), peer->answers))
                return -EPIPE;
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, allocators[allocator].name) == 0)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: %s could not be loaded; Debian has it in %s\n",
                      allocators[allocator].library, allocators[allocator].package);
        return -ENOENT;
}

int peer_init(enum peer_allocator allocator, enum peer_pattern pattern, uint32_t n_live,
              struct peer *ret_peer)
{
        char program[] = "gpumem-bench", option[] = PEER_OPTION, kind[16], live[16];
        char *arguments[] = {program, option, kind, live, NULL};
        struct peer peer = PEER_NULL;
        int r;

        (void)snprintf(kind, sizeof(kind), "%u", (unsigned)pattern);
        (void)snprintf(live, sizeof(live), "%u", n_live);
        r = start(allocator, arguments, &peer);
        if (r)
                return r;
        r = check_name(&peer, allocator);
        if (r)
                peer_deinit(&peer);
        else
                *ret_peer = peer;
        return r;
}

/* The end of its input is its end. */
void peer_deinit(struct peer *peer)
{
        if (peer->requests)
                (void)fclose(peer->requests);
        if (peer->answers)
                (void)fclose(peer->answers);
        if (peer->pid)
                (void)waitpid(peer->pid, NULL, 0);
        *peer = (struct peer)PEER_NULL;
}

int peer_measure(struct peer *peer, double *ret_ns)
{
        if (fputc('\n', peer->requests) == EOF || fflush(peer->requests) == EOF)
                return err_errno();
        return fscanf(peer->answers, "%lf", ret_ns) == 1 ? 0 : -EPIPE;
}
