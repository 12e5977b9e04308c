/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peer.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "bench/cold.h"
#include "bench/replace.h"
#include "bench/timing.h"

#define N_STEPS 4096

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

int peer_spawn(const char *path, const char *const *arguments, const char *const *environment,
               int in, int out, pid_t *ret_pid)
{
        posix_spawn_file_actions_t actions;
        int r;

        if (posix_spawn_file_actions_init(&actions))
                return -ENOMEM;
        r = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        if (!r)
                r = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        if (!r)
                r = posix_spawnp(ret_pid, path, &actions, NULL, (char *const *)arguments,
                                 (char *const *)environment);
        (void)posix_spawn_file_actions_destroy(&actions);
        return -r;
}

/* LD_PRELOAD is set for the child only. */
static int spawn_under(const char *library, const char *const *arguments, int request_fd,
                       int answer_fd, pid_t *ret_pid)
{
        int r;

        if (library && setenv("LD_PRELOAD", library, 1))
                return err_errno();
        r = peer_spawn("/proc/self/exe", arguments, (const char *const *)environ, request_fd,
                       answer_fd, ret_pid);
        (void)unsetenv("LD_PRELOAD");
        return r;
}

static int open_pipes(int request_fds[2], int answer_fds[2])
{
        if (pipe2(request_fds, O_CLOEXEC) < 0 || pipe2(answer_fds, O_CLOEXEC) < 0)
                return err_errno();
        return 0;
}

static int start(enum peer_allocator allocator, const char *const *arguments, struct peer *ret_peer)
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
        int r = open_pipes(request_fds, answer_fds);

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

/* The child's first line names the allocator that it runs under. */
static int check_name(struct peer *peer, enum peer_allocator allocator)
{
        char line[32];

        if (!fgets(line, sizeof(line), peer->answers))
                return -EPIPE;
        line[strcspn(line, "\n")] = 0;
        if (strcmp(line, allocators[allocator].name) == 0)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: cannot load %s; Debian has it in %s\n",
                      allocators[allocator].library, allocators[allocator].package);
        return -ENOENT;
}

int peer_init(enum peer_allocator allocator, enum peer_pattern pattern, uint32_t n_live,
              struct peer *ret_peer)
{
        char kind[16], live[16];
        const char *arguments[] = {"gpumem-bench", PEER_OPTION, kind, live, NULL};
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

/* The child ends when its input ends. */
void peer_deinit(struct peer *peer)
{
        if (peer->requests)
                (void)fclose(peer->requests);
        if (peer->answers)
                (void)fclose(peer->answers);
        if (peer->pid)
                (void)waitpid(peer->pid, NULL, 0);
        *peer = PEER_NULL;
}

int peer_measure(struct peer *peer, double *ret_ns)
{
        if (fputc('\n', peer->requests) == EOF || fflush(peer->requests) == EOF)
                return err_errno();
        return fscanf(peer->answers, "%lf", ret_ns) == 1 ? 0 : -EPIPE;
}

/* The child's side: host allocators under the benchmarks' patterns. */
static int host_alloc(void *argument, uint64_t n_bytes, void **ret_pointer)
{
        (void)argument;
        *ret_pointer = malloc(n_bytes);
        return *ret_pointer ? 0 : -ENOMEM;
}

static int host_free(void *argument, void *pointer)
{
        (void)argument;
        free(pointer);
        return 0;
}

static int pair_steps(void *state, unsigned n_steps)
{
        (void)state;
        for (unsigned i = 0; i < n_steps; i++) {
                void *pointer = malloc(64);

                /* Keeps the compiler from removing the pair. */
                __asm__ volatile("" : "+r"(pointer) : : "memory");
                free(pointer);
        }
        return 0;
}

static int host_replace_steps(void *state, unsigned n_steps)
{
        return replace_steps(state, n_steps, host_alloc, host_free, NULL);
}

static int host_cold(void *state, double *ret_ns)
{
        return cold_repetition(state, host_alloc, host_free, NULL, ret_ns);
}

/* PEER_COLD times itself. */
static const struct {
        timed_steps *steps;
        enum replace_sizes sizes;
        uint32_t divisor; /* 0: no live allocations */
} patterns[] = {
        [PEER_PAIR] = {pair_steps, REPLACE_WIDE, 0},
        [PEER_WIDE] = {host_replace_steps, REPLACE_WIDE, 1024},
        [PEER_SMALL] = {host_replace_steps, REPLACE_SMALL, 64},
};

static const char *allocator_name(void)
{
        enum peer_allocator allocator = PEER_GLIBC;

        if (dlsym(RTLD_DEFAULT, "mi_malloc"))
                allocator = PEER_MIMALLOC;
        else if (dlsym(RTLD_DEFAULT, "mallctl"))
                allocator = PEER_JEMALLOC;
        return peer_name(allocator);
}

struct host {
        struct replace replace;
        struct cold cold;
};

static int answer(enum peer_pattern pattern, struct host *host)
{
        double ns;
        int r = pattern == PEER_COLD
                        ? host_cold(&host->cold, &ns)
                        : time_repetition(patterns[pattern].steps, &host->replace, N_STEPS, &ns);

        if (!r && (printf("%.4f\n", ns) < 0 || fflush(stdout) == EOF))
                r = err_errno();
        return r;
}

static int serve(enum peer_pattern pattern, uint32_t n_live)
{
        struct host host = {.replace = {.n_live = 0}};
        int r = start_sleeper();

        if (!r && pattern == PEER_COLD)
                r = cold_init(&host.cold);
        else if (!r && patterns[pattern].divisor)
                r = replace_init(&host.replace, n_live, patterns[pattern].sizes,
                                 patterns[pattern].divisor);
        if (!r)
                r = replace_fill(&host.replace, host_alloc, NULL);
        if (!r && (puts(allocator_name()) == EOF || fflush(stdout) == EOF))
                r = err_errno();
        while (!r && getchar() != EOF)
                r = answer(pattern, &host);
        return r;
}

int peer_main(char **arguments)
{
        unsigned long pattern = arguments[0] ? strtoul(arguments[0], NULL, 10) : PEER_N_PATTERNS;

        if (pattern >= PEER_N_PATTERNS || !arguments[1])
                return EXIT_FAILURE;
        return serve((enum peer_pattern)pattern, (uint32_t)strtoul(arguments[1], NULL, 10))
                       ? EXIT_FAILURE
                       : EXIT_SUCCESS;
}
