/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"

#define IDS_MAX 100000000

/* State of reading a trace. */
struct reading {
        const char *path;
        unsigned number; /* of the current line */
        struct trace trace;
        size_t event_room;
        uint32_t *used; /* by id: the allocation's stream, from 1 on; 0: none */
        size_t id_room;
        uint32_t *streams; /* their numbers in the file, by ours */
};

static int told(const struct reading *reading, const char *what)
{
        (void)fprintf(stderr, "%s:%u: %s\n", reading->path, reading->number, what);
        return -EINVAL;
}

static int make_room(struct reading *reading, uint32_t id)
{
        struct trace *trace = &reading->trace;

        if (trace->n_events == reading->event_room) {
                size_t room = reading->event_room ? reading->event_room * 2 : 4096;
                struct trace_event *events = reallocarray(trace->events, room, sizeof(*events));

                if (!events)
                        return -ENOMEM;
                trace->events = events;
                reading->event_room = room;
        }
        if (id >= reading->id_room) {
                size_t room = (size_t)id * 2 + 4096;
                uint32_t *used = reallocarray(reading->used, room, sizeof(*used));

                if (!used)
                        return -ENOMEM;
                memset(used + reading->id_room, 0, (room - reading->id_room) * sizeof(*used));
                reading->used = used;
                reading->id_room = room;
        }
        return 0;
}

/* Numbers the streams by their first allocations. */
static int number_stream(struct reading *reading, uint32_t stream, uint32_t *ret_number)
{
        uint32_t number = 0, n = reading->trace.n_streams, *streams;

        while (number < n && reading->streams[number] != stream)
                number++;
        if (number == n) {
                streams = reallocarray(reading->streams, n + 1, sizeof(*streams));
                if (!streams)
                        return -ENOMEM;
                streams[n] = stream;
                reading->streams = streams;
                reading->trace.n_streams++;
        }
        *ret_number = number;
        return 0;
}

static int add(struct reading *reading, struct trace_event *event)
{
        struct trace *trace = &reading->trace;
        int r = make_room(reading, event->id);

        if (r)
                return r;
        if (event->kind == TRACE_ALLOC && !event->n_bytes)
                return told(reading, "an allocation of 0 bytes");
        if (event->kind == TRACE_ALLOC && reading->used[event->id])
                return told(reading, "an allocation with an id in use");
        if (event->kind == TRACE_FREE && !reading->used[event->id])
                return told(reading, "a free of an unknown id");
        r = event->kind == TRACE_ALLOC ? number_stream(reading, event->stream, &event->stream) : 0;
        if (r)
                return r;
        if (event->kind == TRACE_FREE)
                event->stream = reading->used[event->id] - 1;
        reading->used[event->id] = event->kind == TRACE_ALLOC ? event->stream + 1 : 0;
        trace->events[trace->n_events++] = *event;
        if (event->id >= trace->n_ids)
                trace->n_ids = event->id + 1;
        return 0;
}

/* Parses a space and digits: no sign, at most `most`. */
static bool take_number(const char **at, uint64_t most, uint64_t *ret_number)
{
        char *end;

        if (**at != ' ' || (*at)[1] < '0' || (*at)[1] > '9')
                return false;
        errno = 0;
        *ret_number = strtoull(*at, &end, 10);
        *at = end;
        return !errno && *ret_number <= most;
}

static bool parse_line(const char *line, struct trace_event *ret_event)
{
        struct trace_event event = {.kind = line[0] == 'a' ? TRACE_ALLOC : TRACE_FREE};
        uint64_t id, stream = 0;

        if (line[0] != 'a' && line[0] != 'f')
                return false;
        line++;
        if (!take_number(&line, IDS_MAX - 1, &id))
                return false;
        if (event.kind == TRACE_ALLOC && (!take_number(&line, UINT64_MAX, &event.n_bytes) ||
                                          !take_number(&line, UINT32_MAX, &stream)))
                return false;
        event.id = (uint32_t)id;
        event.stream = (uint32_t)stream;
        *ret_event = event;
        return line[strspn(line, " \t\r\n")] == '\0';
}

static int read_lines(FILE *file, struct reading *reading)
{
        CLEANUP(freep)
        char *line = NULL;
        size_t n_line = 0;
        struct trace_event event;
        int r = 0;

        while (!r && getline(&line, &n_line, file) >= 0) {
                reading->number++;
                if (line[0] == '#')
                        continue;
                r = parse_line(line, &event)
                            ? add(reading, &event)
                            : told(reading,
                                   "invalid line (expected \"a ID BYTES STREAM\" or \"f ID\")");
        }
        return r;
}

/* Starts gzip between a file and a pipe. It passes uncompressed data through. */
static pid_t decompress(int from, int *ret_fd)
{
        int ends[2];
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                if (dup2(from, STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0)
                        (void)execlp("gzip", "gzip", "-dcf", (char *)NULL);
                _exit(127);
        }
        closep(&ends[1]);
        if (pid < 0)
                closep(&ends[0]);
        *ret_fd = ends[0];
        return pid;
}

/* Refuses a folder, which open() accepts. */
static int open_trace(const char *path, int *ret_fd)
{
        CLEANUP(closep)
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        char byte;
        int r = 0;

        if (fd < 0 || read(fd, &byte, 0) < 0)
                r = err_errno();
        if (r)
                (void)fprintf(stderr, "%s: %s\n", path, strerror(-r));
        else
                *ret_fd = steal_fd(&fd);
        return r;
}

static int read_all(int from, struct reading *reading)
{
        int fd = -1, status = 0, r = -ENOMEM;
        pid_t pid = decompress(from, &fd);
        FILE *file;

        if (pid < 0)
                return -EAGAIN;
        file = fdopen(fd, "r");
        if (file) {
                r = read_lines(file, reading);
                (void)fclose(file);
        } else
                closep(&fd);
        if (waitpid(pid, &status, 0) == pid && !r && status) {
                (void)fprintf(stderr, "%s: gzip failed to read it\n", reading->path);
                r = -EIO;
        }
        return r;
}

int trace_read(const char *path, struct trace *ret_trace)
{
        CLEANUP(closep)
        int from = -1;
        struct reading reading = {.path = path};
        int r = open_trace(path, &from);

        if (r)
                return r;
        r = read_all(from, &reading);
        free(reading.used);
        free(reading.streams);
        if (r) {
                trace_deinit(&reading.trace);
                return r;
        }
        *ret_trace = reading.trace;
        return 0;
}

void trace_deinit(struct trace *trace)
{
        free(trace->events);
        *trace = (struct trace){.events = NULL};
}
