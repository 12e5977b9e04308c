/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/lists/rows.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/errand_thread.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/reply_files.h"
#include "gpumem.h"

/* A step writes one chunk, and never copies rows that are there. Most of its time goes to the file's new pages. */
#define CHUNK_BYTES 8192

struct row_chunk {
        struct row_chunk *next;
        uint32_t n_rows;
        _Alignas(max_align_t) char rows[];
};

/* What is left of a list. */
struct row_trash {
        struct errand errand;
        struct row_chunk *first;
        int file; /* -1: none */
};

static void free_first(struct row_buffer *buffer)
{
        struct row_chunk *first = buffer->first;

        buffer->first = first->next;
        if (!buffer->first)
                buffer->last = NULL;
        free(first);
}

void row_buffer_init(struct row_buffer *buffer, struct session *session, size_t n_row_bytes)
{
        *buffer = (struct row_buffer){.closer = session->server->closer,
                                      .n_row_bytes = n_row_bytes};
        if (!authorization_is_operator(session))
                buffer->n_owner_bytes = account_list_bytes(session->account);
}

/* Returns whether there may be so many more. */
static bool count_more(struct row_buffer *buffer, size_t n_bytes)
{
        uint64_t *n_all = buffer->n_owner_bytes;

        if (n_all && *n_all > buffer->n_bytes && *n_all + n_bytes > ROWS_MAX_BYTES_AN_OWNER)
                buffer->is_beyond = true;
        if (buffer->is_beyond)
                return false;
        buffer->n_bytes += n_bytes;
        if (n_all)
                *n_all += n_bytes;
        return true;
}

static void free_all(struct row_chunk *first, int file)
{
        struct row_chunk *next;

        closep(&file);
        for (; first; first = next) {
                next = first->next;
                free(first);
        }
}

static void free_trash(struct errand *errand, void *argument)
{
        struct row_trash *trash = CONTAINER_OF(errand, struct row_trash, errand);

        (void)argument;
        free_all(trash->first, trash->file);
        free(trash);
}

/* A list that was given up may be large, and the kernel then frees all pages of its file. */
static void throw_away(struct row_buffer *buffer)
{
        int file = buffer->has_file ? buffer->file : -1;
        bool is_large = buffer->n_rows > PART_ITEMS && buffer->closer;
        struct row_trash *trash = is_large ? malloc(sizeof(*trash)) : NULL;

        if (!trash) {
                free_all(buffer->first, file);
                return;
        }
        *trash = (struct row_trash){{.run = free_trash}, buffer->first, file};
        fd_closer_take_errand(buffer->closer, &trash->errand);
}

void row_buffer_clear(struct row_buffer *buffer)
{
        if (buffer->n_owner_bytes)
                *buffer->n_owner_bytes -= buffer->n_bytes;
        throw_away(buffer);
        *buffer = (struct row_buffer){.closer = buffer->closer,
                                      .n_row_bytes = buffer->n_row_bytes,
                                      .n_owner_bytes = buffer->n_owner_bytes};
}

void *row_buffer_calloc(struct row_buffer *buffer, size_t n, size_t n_bytes)
{
        void *zeros = count_more(buffer, n * n_bytes) ? calloc(n, n_bytes) : NULL;

        buffer->failed = buffer->failed || !zeros;
        return zeros;
}

static uint32_t n_chunk_rows(const struct row_buffer *buffer)
{
        if (buffer->n_row_bytes * PART_ITEMS <= CHUNK_BYTES)
                return PART_ITEMS;
        return buffer->n_row_bytes < CHUNK_BYTES ? (uint32_t)(CHUNK_BYTES / buffer->n_row_bytes)
                                                 : 1;
}

static struct row_chunk *add_chunk(struct row_buffer *buffer)
{
        size_t n_bytes = n_chunk_rows(buffer) * buffer->n_row_bytes;
        struct row_chunk *chunk = count_more(buffer, n_bytes) ? malloc(sizeof(*chunk) + n_bytes)
                                                              : NULL;

        if (!chunk)
                return NULL;
        chunk->next = NULL;
        chunk->n_rows = 0;
        if (buffer->last)
                buffer->last->next = chunk;
        else
                buffer->first = chunk;
        buffer->last = chunk;
        return chunk;
}

void *row_buffer_add(struct row_buffer *buffer, const void *row)
{
        struct row_chunk *chunk = buffer->last;
        char *at;

        if (!buffer->failed && (!chunk || chunk->n_rows == n_chunk_rows(buffer)))
                chunk = add_chunk(buffer);
        if (buffer->failed || !chunk || buffer->n_rows == PROTO_ROWS_MAX) {
                buffer->failed = true;
                return NULL;
        }
        at = chunk->rows + chunk->n_rows++ * buffer->n_row_bytes;
        buffer->n_rows++;
        return memcpy(at, row, buffer->n_row_bytes);
}

static size_t n_all_bytes(const struct row_buffer *buffer)
{
        return buffer->n_rows * buffer->n_row_bytes;
}

/* The chunk is freed then. */
static int write_first(struct row_buffer *buffer)
{
        const struct row_chunk *chunk = buffer->first;
        int r = memfd_write(buffer->file, chunk->rows, chunk->n_rows * buffer->n_row_bytes,
                            buffer->n_written * buffer->n_row_bytes);

        buffer->n_written += chunk->n_rows;
        free_first(buffer);
        return r;
}

bool row_buffer_write_some(struct row_buffer *buffer)
{
        int r = 0;

        if (!buffer->failed && !buffer->has_file) {
                r = memfd_new(REPLY_FILES_NAME, n_all_bytes(buffer), &buffer->file);
                buffer->has_file = !r;
        }
        if (!buffer->failed && !r && buffer->first)
                r = write_first(buffer);
        buffer->failed = buffer->failed || r;
        return !buffer->failed && buffer->first;
}

int row_buffer_take_file(struct row_buffer *buffer, struct session *session, int *ret_fd)
{
        if (buffer->failed)
                return -ENOMEM;
        return reply_files_keep(session, buffer->file, n_all_bytes(buffer), ret_fd);
}

void row_buffer_refuse(const struct row_buffer *buffer, struct session *session, uint32_t serial,
                       int r)
{
        if (buffer->is_beyond)
                session_send_error(session, serial, GPUMEM_E_TOO_MANY,
                                   "the lists that are being made for this user would take more "
                                   "than 64 MiB; ask for one at a time");
        else
                rows_refuse_file(session, serial, r);
}

void rows_refuse_file(struct session *session, uint32_t serial, int r)
{
        if (r == GPUMEM_E_TOO_MANY)
                session_send_error(session, serial, GPUMEM_E_TOO_MANY,
                                   "gpumemd makes no more lists: a process that writes to one "
                                   "delays that the memory of earlier ones is freed");
        else
                session_refuse_for_memory(session, serial);
}

bool rows_may_show(const struct session *session, const struct tenant *tenant)
{
        return authorization_sees_all(session) || client_tenant(session->client) == tenant;
}
