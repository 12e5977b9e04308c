#include "bench/trace.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

#define IDS_MAX 100000000

static int add(struct trace *trace, size_t *capacity, const struct trace_event *event)
{
        if (trace->n_events == *capacity) {
                size_t larger = *capacity ? *capacity * 2 : 4096;
                struct trace_event *events = realloc(trace->events, larger * sizeof(*events));

                if (!events)
                        return -ENOMEM;
                trace->events = events;
                *capacity = larger;
        }
        trace->events[trace->n_events++] = *event;
        if (event->id >= trace->n_ids)
                trace->n_ids = event->id + 1;
        return 0;
}

static int parse_line(const char *line, struct trace_event *ret_event)
{
        struct trace_event event = {.kind = TRACE_FREE};

        if (sscanf(line, "a %" SCNu32 " %" SCNu64 " %" SCNu32, &event.id, &event.n_bytes,
                   &event.stream) == 3)
                event.kind = TRACE_ALLOC;
        else if (sscanf(line, "f %" SCNu32, &event.id) != 1)
                return -EINVAL;
        if (event.id >= IDS_MAX)
                return -EINVAL;
        *ret_event = event;
        return 0;
}

static int read_lines(FILE *file, const char *path, struct trace *trace)
{
        CLEANUP(freep)
        char *line = NULL;
        size_t n_line = 0, capacity = 0;
        struct trace_event event;

        for (unsigned number = 1; getline(&line, &n_line, file) >= 0; number++) {
                if (line[0] == '#')
                        continue;
                if (parse_line(line, &event)) {
                        (void)fprintf(stderr, "%s:%u: no \"a ID BYTES STREAM\" or \"f ID\": %s",
                                      path, number, line);
                        return -EINVAL;
                }
                if (add(trace, &capacity, &event))
                        return -ENOMEM;
        }
        return 0;
}

/* gzip with its output in a pipe; what is not compressed it gives as it is. */
static pid_t decompress(const char *path, int *ret_fd)
{
        int ends[2];
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                if (dup2(ends[1], STDOUT_FILENO) >= 0)
                        (void)execlp("gzip", "gzip", "-dcf", "--", path, (char *)NULL);
                _exit(127);
        }
        closep(&ends[1]);
        if (pid < 0)
                closep(&ends[0]);
        *ret_fd = ends[0];
        return pid;
}

int trace_read(const char *path, struct trace *ret_trace)
{
        struct trace trace = {.events = NULL};
        int fd = -1, status = 0, r = -ENOMEM;
        pid_t pid = decompress(path, &fd);
        FILE *file;

        if (pid < 0)
                return -EAGAIN;
        file = fdopen(fd, "r");
        if (file) {
                r = read_lines(file, path, &trace);
                (void)fclose(file);
        }
        if (waitpid(pid, &status, 0) == pid && !r && status) {
                (void)fprintf(stderr, "%s: gzip could not read it\n", path);
                r = -EIO;
        }
        if (r) {
                trace_deinit(&trace);
                return r;
        }
        *ret_trace = trace;
        return 0;
}

void trace_deinit(struct trace *trace)
{
        free(trace->events);
        *trace = (struct trace){.events = NULL};
}
