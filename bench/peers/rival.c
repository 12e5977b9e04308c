/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/peers/rival.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "bench/peer.h"

#define SECONDS_END 5

#define PROGRAM_WORDS_MAX 8
#define PROGRAM_PATH_MAX  512

/* The program of a rival. It has pointers into itself, so it must not be moved. */
struct program {
        const char *path; /* looked up in PATH if it has no '/' */
        const char *arguments[PROGRAM_WORDS_MAX];
        const char **environment;
        char file[PROGRAM_PATH_MAX];
};

static const struct {
        const char *name;
        const char *script; /* NULL: this program */
} kinds[] = {
        [RIVAL_GPUMEMD] = {"gpumemd", NULL},
        [RIVAL_HANDLE] = {"gpumemd_handle", NULL},
        [RIVAL_DRIVER] = {"cuMemAlloc", NULL},
        [RIVAL_ASYNC] = {"cuMemAllocAsync", NULL},
        [RIVAL_ECHO] = {"echo", NULL},
        [RIVAL_TORCH_CPP] = {"torch_cpp", "torch_cpp.py"},
        [RIVAL_TORCH] = {"torch", "torch_rival.py"},
        [RIVAL_TORCH_EXPANDABLE] = {"torch_expandable", "torch_rival.py"},
        [RIVAL_CUPY] = {"cupy", "cupy_rival.py"},
};

const char *rival_name(enum rival_kind kind)
{
        return kinds[kind].name;
}

static bool is_set_for(const char *variable, const char *name)
{
        size_t n = strlen(name);

        return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

/* Removes the user's settings of PyTorch's allocator, which are not compared. */
static int make_environment(enum rival_kind kind, struct program *program)
{
        size_t n = 0, n_kept = 0;

        while (environ[n])
                n++;
        program->environment = calloc(n + 2, sizeof(*program->environment));
        if (!program->environment)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                if (!is_set_for(environ[i], "PYTORCH_CUDA_ALLOC_CONF") &&
                    !is_set_for(environ[i], "PYTORCH_ALLOC_CONF"))
                        program->environment[n_kept++] = environ[i];
        }
        if (kind == RIVAL_TORCH_EXPANDABLE)
                program->environment[n_kept] = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
        return 0;
}

static void find_own(enum rival_kind kind, const struct rival_setup *setup, struct program *program)
{
        const char *words[] = {"gpumem-bench", RIVAL_OPTION, kinds[kind].name, setup->socket_path};

        program->path = "/proc/self/exe";
        memcpy(program->arguments, words, sizeof(words));
}

static int find_script(enum rival_kind kind, const struct rival_setup *setup,
                       struct program *program)
{
        const char *words[] = {"python3", "-B", program->file, setup->folder};
        int n = snprintf(program->file, PROGRAM_PATH_MAX, "%s/%s", setup->scripts,
                         kinds[kind].script);

        program->path = words[0];
        memcpy(program->arguments, words, sizeof(words));
        return n < PROGRAM_PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* The compiled program runs without Python, so its start time is its own. */
static bool find_compiled(const struct rival_setup *setup, struct program *program)
{
        int n = snprintf(program->file, PROGRAM_PATH_MAX, "%s/%s", setup->folder,
                         RIVAL_TORCH_PROGRAM);

        if (n >= PROGRAM_PATH_MAX || access(program->file, X_OK) < 0)
                return false;
        program->path = program->arguments[0] = program->file;
        return true;
}

static int program_find(enum rival_kind kind, const struct rival_setup *setup,
                        struct program *ret_program, char note[static ROW_NOTE_MAX])
{
        int r = 0;

        *ret_program = (struct program){.path = NULL};
        if (!kinds[kind].script) {
                find_own(kind, setup, ret_program);
        } else if (!setup->scripts) {
                (void)snprintf(note, ROW_NOTE_MAX, "left out without --peers DIR");
                return -ENODEV;
        } else if (kind != RIVAL_TORCH_CPP || !find_compiled(setup, ret_program)) {
                r = find_script(kind, setup, ret_program);
        }
        if (!r)
                r = make_environment(kind, ret_program);
        if (r)
                (void)snprintf(note, ROW_NOTE_MAX, "%s", strerror(-r));
        return r;
}

static void program_deinit(struct program *program)
{
        free(program->environment);
        program->environment = NULL;
}

int rival_spawn(enum rival_kind kind, const struct rival_setup *setup, struct rival *ret_rival)
{
        struct rival rival = RIVAL_NULL;
        int in[2] = {-1, -1}, out[2] = {-1, -1};
        struct program program;
        int r;

        *ret_rival = rival;
        rival.kind = kind;
        rival.deadline_ns = setup->deadline_ns;
        r = program_find(kind, setup, &program, ret_rival->note);
        if (r)
                return r;
        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
                r = err_errno();
        if (!r)
                r = peer_spawn(program.path, program.arguments, program.environment, in[0], out[1],
                               &rival.pid);
        closep(&in[0]);
        closep(&out[1]);
        rival.to = in[1];
        rival.from = out[0];
        program_deinit(&program);
        if (r) {
                (void)snprintf(ret_rival->note, ROW_NOTE_MAX, "%s: %s", program.path, strerror(-r));
                rival.pid = 0;
                rival_end(&rival);
                return r;
        }
        *ret_rival = rival;
        return 0;
}

/* Ends the rival; the note stays. */
static void forget(struct rival *rival)
{
        closep(&rival->to);
        closep(&rival->from);
        rival->pid = 0;
        rival->n_text = 0;
}

/* The rival's output ends when the rival ends. */
static void await_end(const struct rival *rival)
{
        struct pollfd fd = {.fd = rival->from, .events = POLLIN};
        uint64_t end_ns = clock_now_ns() + SECONDS_END * UINT64_C(1000000000);
        char rest[256];

        while (clock_now_ns() < end_ns && poll(&fd, 1, 100) >= 0) {
                if (fd.revents && read(rival->from, rest, sizeof(rest)) <= 0)
                        return;
        }
        (void)kill(rival->pid, SIGKILL);
}

void rival_end(struct rival *rival)
{
        closep(&rival->to);
        if (rival->pid) {
                await_end(rival);
                (void)waitpid(rival->pid, NULL, 0);
        }
        forget(rival);
}

static int failed(struct rival *rival, int r, const char *what)
{
        if (r == -ETIMEDOUT && rival->pid)
                (void)kill(rival->pid, SIGKILL);
        (void)snprintf(rival->note, ROW_NOTE_MAX, "%s", what);
        return r;
}

/* Reads what is there, or waits for more. */
static int read_more(struct rival *rival, uint64_t end_ns)
{
        struct pollfd fd = {.fd = rival->from, .events = POLLIN};
        uint64_t now = clock_now_ns();
        ssize_t n;

        if (now >= end_ns || poll(&fd, 1, (int)((end_ns - now) / 1000000 + 1)) == 0)
                return failed(rival, -ETIMEDOUT, "it took too long");
        n = read(rival->from, rival->text + rival->n_text, RIVAL_TEXT_MAX - rival->n_text);
        if (n <= 0)
                return failed(rival, -EPIPE, "its process ended");
        rival->n_text += (unsigned)n;
        return 0;
}

/* The next line, without its newline. A line that is too long loses its beginning. */
static int read_line(struct rival *rival, uint64_t end_ns, char ret_line[static RIVAL_TEXT_MAX])
{
        char *end;

        while (!(end = memchr(rival->text, '\n', rival->n_text))) {
                int r;

                if (rival->n_text == RIVAL_TEXT_MAX)
                        rival->n_text = 0;
                r = read_more(rival, end_ns);
                if (r)
                        return r;
        }
        *end = 0;
        memcpy(ret_line, rival->text, (size_t)(end - rival->text) + 1);
        rival->n_text -= (unsigned)(end + 1 - rival->text);
        memmove(rival->text, end + 1, rival->n_text);
        return 0;
}

static const char *after(const char *line, const char *word)
{
        size_t n = strlen(word);

        if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' '))
                return NULL;
        return line[n] ? line + n + 1 : line + n;
}

/* Reads up to a line that begins with `good`, whose rest is returned, or with `bad`, a failure. */
static int hear(struct rival *rival, double seconds, const char *good, const char *bad,
                char ret_rest[static RIVAL_TEXT_MAX])
{
        uint64_t end_ns = clock_now_ns() + (uint64_t)(seconds * 1e9);
        char line[RIVAL_TEXT_MAX];

        if (end_ns > rival->deadline_ns)
                end_ns = rival->deadline_ns;
        for (;;) {
                const char *rest;
                int r = read_line(rival, end_ns, line);

                if (r)
                        return r;
                rest = after(line, bad);
                if (rest)
                        return failed(rival, -ENODEV, rest);
                rest = after(line, good);
                if (rest) {
                        memmove(ret_rest, rest, strlen(rest) + 1);
                        return 0;
                }
        }
}

int rival_hear_ready(struct rival *rival, double seconds)
{
        char rest[RIVAL_TEXT_MAX];

        return hear(rival, seconds, "ready", "none", rest);
}

int rival_tell(struct rival *rival, const char *order)
{
        char line[RIVAL_TEXT_MAX];
        int n = snprintf(line, sizeof(line), "%s\n", order);

        if (n < 0 || (size_t)n >= sizeof(line))
                return failed(rival, -ENAMETOOLONG, "the order is too long");
        return write(rival->to, line, (size_t)n) == n ? 0
                                                      : failed(rival, -EPIPE, "its process ended");
}

int rival_hear(struct rival *rival, double seconds, double *ret_number)
{
        char rest[RIVAL_TEXT_MAX];
        int r = hear(rival, seconds, "ok", "no", rest);

        if (!r)
                *ret_number = strtod(rest, NULL);
        return r;
}

int rival_ask(struct rival *rival, const char *order, double seconds, double *ret_number)
{
        int r = rival_tell(rival, order);

        return r ? r : rival_hear(rival, seconds, ret_number);
}
