/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/trace_format.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/table.h"
#include "client/watch/trace_file.h"

#define LINE_BYTES 256

struct stream_number {
        struct stream_key key;
        uint32_t number;
        UT_hash_handle hh;
};

/* A file, and a summary of its contents. */
struct track {
        char *path;
        struct trace_file *file; /* NULL: no record yet */
        struct stream_number *streams;
        uint32_t n_streams;
        uint32_t n_ids;
        uint64_t n_freed;
};

struct live {
        uint64_t address;
        uint64_t owner;
        struct track *track;
        uint32_t id;
        uint32_t n_owed; /* frees that are written, and whose records are to come */
        UT_hash_handle hh;
};

enum { DEVICE, PINNED, N_TRACKS };

struct trace_format {
        struct track tracks[N_TRACKS];
        struct live *lives; /* hash table: by address */
        char *about;
        const struct track *track; /* the one that was written to last */
        uint64_t n_lost;
        int failed;
        bool is_to_complete;
};

static char *pinned_path(const char *path)
{
        size_t n_stem = strlen(path);
        const char *suffix = "";
        char *pinned;

        if (n_stem >= 3 && strcmp(path + n_stem - 3, ".gz") == 0) {
                n_stem -= 3;
                suffix = path + n_stem;
        }
        return asprintf(&pinned, "%.*s.pinned%s", (int)n_stem, path, suffix) < 0 ? NULL : pinned;
}

static int open_track(struct track *track, const char *about)
{
        char line[LINE_BYTES];
        size_t n;
        int r = trace_file_open(track->path, &track->file);

        if (r)
                return r;
        (void)snprintf(line, sizeof(line) - 1, "# %s", about);
        n = strcspn(line, "\n");
        line[n++] = '\n';
        return trace_file_write(track->file, line, n);
}

static int close_track(struct track *track)
{
        struct stream_number *stream, *next;

        HASH_ITER(hh, track->streams, stream, next)
        {
                HASH_DEL(track->streams, stream);
                free(stream);
        }
        return track->file ? trace_file_close(track->file) : 0;
}

/* Logs the first failure; a trace with a gap would be of no use. */
static void fail(struct trace_format *lines, const struct track *track, int r)
{
        if (!r || lines->failed)
                return;
        lines->failed = r;
        log_warning("GPUMEM_TRACE: %s: %s; recording has stopped", track->path, gpumem_strerror(r));
}

static void free_lines(struct trace_format *lines)
{
        struct live *live, *next;

        HASH_ITER(hh, lines->lives, live, next)
        {
                HASH_DEL(lines->lives, live);
                free(live);
        }
        for (unsigned i = 0; i < N_TRACKS; i++) {
                fail(lines, &lines->tracks[i], close_track(&lines->tracks[i]));
                free(lines->tracks[i].path);
        }
        free(lines->about);
        free(lines);
}

int trace_format_new(const char *path, const char *about, struct trace_format **ret_lines)
{
        struct trace_format *lines = calloc(1, sizeof(*lines));
        int r = -ENOMEM;

        if (!lines)
                return r;
        lines->tracks[DEVICE].path = strdup(path);
        lines->tracks[PINNED].path = pinned_path(path);
        lines->about = strdup(about);
        if (lines->tracks[DEVICE].path && lines->tracks[PINNED].path && lines->about)
                r = open_track(&lines->tracks[DEVICE], about);
        if (r) {
                free_lines(lines);
                return r;
        }
        *ret_lines = lines;
        return 0;
}

static int number_stream(struct track *track, const struct stream_key *key, uint32_t *ret_number)
{
        struct stream_number *stream;

        HASH_FIND(hh, track->streams, key, sizeof(*key), stream);
        if (!stream) {
                stream = calloc(1, sizeof(*stream));
                if (!stream)
                        return -ENOMEM;
                stream->key = *key;
                stream->number = track->n_streams;
                HASH_ADD(hh, track->streams, key, sizeof(stream->key), stream);
                if (!stream->hh.tbl) {
                        free(stream);
                        return -ENOMEM;
                }
                track->n_streams++;
        }
        *ret_number = stream->number;
        return 0;
}

/* printf would cost more than everything else. */
static char *put_number(char *to, uint64_t number)
{
        char digits[20];
        size_t n = 0;

        do {
                digits[sizeof(digits) - ++n] = (char)('0' + number % 10);
                number /= 10;
        } while (number);
        memcpy(to, digits + sizeof(digits) - n, n);
        return to + n;
}

static int write_alloc(struct track *track, uint32_t id, uint64_t n_bytes, uint32_t stream)
{
        char line[LINE_BYTES], *end = line;

        *end++ = 'a';
        *end++ = ' ';
        end = put_number(end, id);
        *end++ = ' ';
        end = put_number(end, n_bytes);
        *end++ = ' ';
        end = put_number(end, stream);
        *end++ = '\n';
        return trace_file_write(track->file, line, (size_t)(end - line));
}

static int write_free(const struct live *live)
{
        char line[LINE_BYTES], *end = line;

        *end++ = 'f';
        *end++ = ' ';
        end = put_number(end, live->id);
        *end++ = '\n';
        live->track->n_freed++;
        return trace_file_write(live->track->file, line, (size_t)(end - line));
}

static struct live *find_live(struct trace_format *lines, uint64_t address)
{
        struct live *live;

        HASH_FIND(hh, lines->lives, &address, sizeof(address), live);
        return live;
}

static int add_live(struct trace_format *lines, uint64_t address, struct live **ret_live)
{
        struct live *live = calloc(1, sizeof(*live));

        if (!live)
                return -ENOMEM;
        live->address = address;
        HASH_ADD(hh, lines->lives, address, sizeof(live->address), live);
        if (!live->hh.tbl) {
                free(live);
                return -ENOMEM;
        }
        *ret_live = live;
        return 0;
}

static int take_alloc(struct trace_format *lines, const struct trace_record *record)
{
        struct track *track = &lines->tracks[record->memory == GPUMEM_PINNED ? PINNED : DEVICE];
        struct live *live = find_live(lines, record->address);
        uint32_t stream;
        int r = 0;

        lines->track = track;
        if (!track->file)
                r = open_track(track, lines->about);
        if (!r && track->n_ids == TRACE_IDS_MAX)
                r = -EFBIG;
        if (!r)
                r = number_stream(track, &record->key, &stream);
        if (!r && live) {
                live->n_owed++;
                r = write_free(live);
        } else if (!r) {
                r = add_live(lines, record->address, &live);
        }
        if (r)
                return r;
        live->owner = record->owner;
        live->track = track;
        live->id = track->n_ids++;
        return write_alloc(track, live->id, record->n_bytes, stream);
}

static int end_live(struct trace_format *lines, struct live *live)
{
        int r = write_free(live);

        lines->track = live->track;
        HASH_DEL(lines->lives, live);
        free(live);
        return r;
}

/* An unknown address is of an allocation whose record is lost. */
static int take_free(struct trace_format *lines, const struct trace_record *record)
{
        struct live *live = find_live(lines, record->address);

        if (!live) {
                lines->n_lost++;
                return 0;
        }
        if (live->n_owed) {
                live->n_owed--;
                return 0;
        }
        return end_live(lines, live);
}

static int take_disconnect(struct trace_format *lines, const struct trace_record *record)
{
        struct live *live, *next;
        int r = 0;

        lines->is_to_complete = true;
        HASH_ITER(hh, lines->lives, live, next)
        {
                if (!r && live->owner == record->owner)
                        r = end_live(lines, live);
        }
        return r;
}

int trace_format_take(struct trace_format *lines, const struct trace_record *record)
{
        int r = 0;

        if (lines->failed)
                return lines->failed;
        switch (record->kind) {
        case TRACE_RECORD_ALLOC:
                r = take_alloc(lines, record);
                break;
        case TRACE_RECORD_FREE:
                r = take_free(lines, record);
                break;
        case TRACE_RECORD_DISCONNECT:
                r = take_disconnect(lines, record);
                break;
        }
        fail(lines, lines->track, r);
        return lines->failed;
}

int trace_format_flush(struct trace_format *lines)
{
        for (unsigned i = 0; i < N_TRACKS && !lines->failed; i++) {
                struct track *track = &lines->tracks[i];

                if (track->file)
                        fail(lines, track,
                             lines->is_to_complete ? trace_file_complete(track->file)
                                                   : trace_file_flush(track->file));
        }
        lines->is_to_complete = false;
        return lines->failed;
}

static void write_end(const struct trace_format *lines, const struct track *track, uint64_t n_lost)
{
        char line[LINE_BYTES];
        int n = snprintf(line, sizeof(line), "# end: %" PRIu32 " allocations, %" PRIu64 " frees",
                         track->n_ids, track->n_freed);

        if (lines->failed)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "; recording stopped early");
        if (n_lost)
                n += snprintf(line + n, sizeof(line) - (size_t)n, "; %" PRIu64 " calls are missing",
                              n_lost);
        line[n++] = '\n';
        (void)trace_file_write(track->file, line, (size_t)n);
}

void trace_format_free(struct trace_format *lines, uint64_t n_lost)
{
        for (unsigned i = 0; i < N_TRACKS; i++) {
                if (lines->tracks[i].file)
                        write_end(lines, &lines->tracks[i], n_lost + lines->n_lost);
        }
        free_lines(lines);
}

void trace_format_abandon(struct trace_format *lines)
{
        for (unsigned i = 0; i < N_TRACKS; i++) {
                if (lines->tracks[i].file)
                        trace_file_abandon(lines->tracks[i].file);
        }
}
