/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/chart.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

/* An owner of leased memory, and the letter that it gets by how much it has. */
struct owner {
        uint32_t uid;
        uint32_t pid;
        uint64_t n_bytes;
        char letter;
};

struct owners {
        unsigned n;
        struct owner *owners; /* by uid and pid */
};

static bool is_owned(const struct block_row *block)
{
        return block->state == LISTED_LEASED || block->state == LISTED_IDLE;
}

static int compare_owners(const void *left, const void *right)
{
        const struct owner *a = left, *b = right;

        if (a->uid != b->uid)
                return a->uid < b->uid ? -1 : 1;
        return (a->pid > b->pid) - (a->pid < b->pid);
}

static int compare_sizes(const void *left, const void *right)
{
        const struct owner *a = left, *b = right;

        if (a->n_bytes != b->n_bytes)
                return a->n_bytes > b->n_bytes ? -1 : 1;
        return compare_owners(left, right);
}

/* Equal ones, which stand side by side, become one. */
static void merge_owners(struct owners *owners)
{
        unsigned n = 0;

        for (unsigned i = 0; i < owners->n; i++) {
                if (n && compare_owners(&owners->owners[n - 1], &owners->owners[i]) == 0)
                        owners->owners[n - 1].n_bytes += owners->owners[i].n_bytes;
                else
                        owners->owners[n++] = owners->owners[i];
        }
        owners->n = n;
}

static int find_owners(uint32_t pool, const struct block_row *blocks, uint32_t n_blocks,
                       struct owners *ret_owners)
{
        struct owners owners = {.owners = calloc((size_t)n_blocks + 1, sizeof(*owners.owners))};

        if (!owners.owners)
                return -ENOMEM;
        for (uint32_t i = 0; i < n_blocks; i++) {
                if (blocks[i].pool == pool && is_owned(&blocks[i]))
                        owners.owners[owners.n++] = (struct owner){blocks[i].uid, blocks[i].pid,
                                                                   blocks[i].bytes, 0};
        }
        qsort(owners.owners, owners.n, sizeof(*owners.owners), compare_owners);
        merge_owners(&owners);
        qsort(owners.owners, owners.n, sizeof(*owners.owners), compare_sizes);
        for (unsigned i = 0; i < owners.n; i++)
                owners.owners[i].letter = (char)('A' + (i < CHART_LETTERS ? i : CHART_LETTERS - 1));
        qsort(owners.owners, owners.n, sizeof(*owners.owners), compare_owners);
        *ret_owners = owners;
        return 0;
}

static char mark_of(const struct block_row *block, const struct owners *owners)
{
        const struct owner key = {.uid = block->uid, .pid = block->pid};
        const struct owner *owner;

        switch (block->state) {
        case LISTED_LEASED:
        case LISTED_IDLE:
                owner = bsearch(&key, owners->owners, owners->n, sizeof(key), compare_owners);
                assert(owner);
                return block->state == LISTED_LEASED ? owner->letter
                                                     : (char)(owner->letter - 'A' + 'a');
        case LISTED_CACHED:
                return '=';
        case LISTED_LINGERING:
                return '~';
        default:
                return '?';
        }
}

static unsigned rank_of(enum listed_block state)
{
        switch (state) {
        case LISTED_LEASED:
                return 0;
        case LISTED_IDLE:
                return 1;
        case LISTED_CACHED:
                return 2;
        case LISTED_LINGERING:
                return 3;
        case LISTED_SUM:
                break;
        }
        return 4;
}

static int compare_spans(const void *left, const void *right)
{
        const struct span *a = left, *b = right;

        if (rank_of(a->state) != rank_of(b->state))
                return rank_of(a->state) < rank_of(b->state) ? -1 : 1;
        if (a->mark != b->mark)
                return a->mark < b->mark ? -1 : 1;
        if (a->uid != b->uid)
                return a->uid < b->uid ? -1 : 1;
        return (a->pid > b->pid) - (a->pid < b->pid);
}

/* Leased and idle memory is one span for each letter, also if several share it; the rest one for each owner. */
static bool belong_together(const struct span *a, const struct span *b)
{
        if (a->state != b->state || a->mark != b->mark)
                return false;
        return a->state == LISTED_LEASED || a->state == LISTED_IDLE ||
               (a->uid == b->uid && a->pid == b->pid);
}

/* b, of which each row is one block or a sum of them, is added to a. */
static void join(struct span *a, const struct span *b)
{
        a->n_bytes += b->n_bytes;
        a->n_blocks += b->n_blocks;
        if (a->uid == b->uid && a->pid == b->pid)
                return;
        /* Several share the letter: the rows come sorted, so that each counts once. */
        a->n_owners++;
        a->pid = b->pid;
        a->uid = b->uid;
}

static void merge_spans(struct chart *chart)
{
        unsigned n = 0;

        for (unsigned i = 0; i < chart->n_spans; i++) {
                if (n && belong_together(&chart->spans[n - 1], &chart->spans[i]))
                        join(&chart->spans[n - 1], &chart->spans[i]);
                else
                        chart->spans[n++] = chart->spans[i];
        }
        chart->n_spans = n;
}

static void name_owner(struct span *span, const struct client_row *clients, uint32_t n_clients)
{
        if (span->n_owners > 1) {
                span->pid = 0;
                span->uid = LISTING_NOBODY;
                return;
        }
        for (uint32_t i = 0; span->pid && i < n_clients; i++) {
                if (clients[i].pid != span->pid || clients[i].uid != span->uid)
                        continue;
                span->program = clients[i].program;
                span->container = clients[i].container;
                return;
        }
}

static void add_span(struct chart *chart, const struct block_row *block,
                     const struct owners *owners)
{
        struct span span = {
                .state = (enum listed_block)block->state,
                .mark = mark_of(block, owners),
                .uid = block->uid,
                .pid = block->pid,
                .n_owners = 1,
                .n_bytes = block->bytes,
                .n_blocks = block->blocks,
        };

        /* A state of a later daemon is none of ours. */
        if (span.mark == '?')
                span.state = LISTED_SUM;
        if (span.n_bytes)
                chart->spans[chart->n_spans++] = span;
}

int chart_make(const struct pool_row *pool, const struct stats_row *stats,
               const struct block_row *blocks, uint32_t n_blocks, const struct client_row *clients,
               uint32_t n_clients, struct chart *ret_chart)
{
        struct chart chart = {.spans = calloc((size_t)n_blocks + 1, sizeof(*chart.spans))};
        struct owners owners = {.n = 0};
        uint64_t n_reserved = 0;

        if (!chart.spans || find_owners(pool->id, blocks, n_blocks, &owners)) {
                free(chart.spans);
                return -ENOMEM;
        }
        for (uint32_t i = 0; i < n_blocks; i++) {
                if (blocks[i].pool == pool->id)
                        add_span(&chart, &blocks[i], &owners);
        }
        free(owners.owners);
        qsort(chart.spans, chart.n_spans, sizeof(*chart.spans), compare_spans);
        merge_spans(&chart);
        for (unsigned i = 0; i < chart.n_spans; i++) {
                n_reserved += chart.spans[i].n_bytes;
                name_owner(&chart.spans[i], clients, n_clients);
        }
        /* A limit that was lowered is below what is there. */
        chart.n_bytes = n_reserved > stats->max ? n_reserved : stats->max;
        chart.n_free_bytes = chart.n_bytes - n_reserved;
        *ret_chart = chart;
        return 0;
}

void chart_deinit(struct chart *chart)
{
        free(chart->spans);
        *chart = (struct chart){.n_bytes = 0};
}

uint64_t chart_cell_bytes(const struct chart *chart, unsigned n_cells)
{
        uint64_t n_bytes = chart->n_bytes / n_cells + (chart->n_bytes % n_cells != 0);

        return n_bytes ? n_bytes : 1;
}

unsigned chart_cells(const struct chart *chart, unsigned n_cells, unsigned *cells)
{
        uint64_t format_bytes = chart_cell_bytes(chart, n_cells), most = 0, filled = 0;
        unsigned cell = 0;

        n_cells = (unsigned)(chart->n_bytes / format_bytes + (chart->n_bytes % format_bytes != 0));
        for (unsigned i = 0; i < n_cells; i++)
                cells[i] = chart->n_spans;
        for (unsigned i = 0; i < chart->n_spans; i++) {
                uint64_t rest = chart->spans[i].n_bytes;

                while (rest && cell < n_cells) {
                        uint64_t part = format_bytes - filled < rest ? format_bytes - filled : rest;

                        if (part > most) {
                                most = part;
                                cells[cell] = i;
                        }
                        rest -= part;
                        filled += part;
                        if (filled == format_bytes) {
                                cell++;
                                most = filled = 0;
                        }
                }
        }
        return n_cells;
}

void span_describe(const struct span *span, char text[static SPAN_TEXT_MAX])
{
        const char *state = listed_block_name(span->state);
        const char *whose = span->state == LISTED_LEASED ? "by" : "with";
        char of[SPAN_TEXT_MAX / 2] = "";

        if (span->container && *span->container)
                (void)snprintf(of, sizeof(of), ", in container %s", span->container);
        if (span->state == LISTED_SUM)
                (void)snprintf(text, SPAN_TEXT_MAX, "other tenants'");
        else if (span->n_owners > 1)
                (void)snprintf(text, SPAN_TEXT_MAX, "%s %s %" PRIu32 " other processes", state,
                               whose, span->n_owners);
        else if (span->uid == LISTING_NOBODY)
                (void)snprintf(text, SPAN_TEXT_MAX, "%s, without an owner", state);
        else if (!span->pid)
                (void)snprintf(text, SPAN_TEXT_MAX, "%s, of uid %" PRIu32 "%s", state, span->uid,
                               of);
        else
                (void)snprintf(text, SPAN_TEXT_MAX,
                               "%s %s process %" PRIu32 " of uid %" PRIu32 "%s%s%s%s", state, whose,
                               span->pid, span->uid, span->program ? " (" : "",
                               span->program ? span->program : "", span->program ? ")" : "", of);
}
