/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl snapshot: blocks in the layout of PyTorch's memory snapshots, as JSON. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "ctl/core/report.h"
#include "ctl/output/chart.h"
#include "ctl/output/format.h"
#include "ctl/output/parse.h"
#include "ctl/query/node_state.h"

/* A block has an address only in the processes that map it. Here blocks stand side by side, from this address on. */
#define FIRST_ADDRESS (UINT64_C(1) << 32)

static const char help[] =
        "Usage: gpumemctl snapshot [OPTION]...\n"
        "Writes all blocks in the format of PyTorch's memory snapshots, as JSON.\n"
        "\n"
        "  A segment is a block. Leased blocks are active_allocated, lingering ones\n"
        "  active_pending_free, cached and idle ones inactive. A device is a pool:\n"
        "  gpumemctl stats lists the pools. Frames name the owner of a block. Addresses\n"
        "  are not real.\n"
        "\n"
        "  --output FILE  where to write; default: -, standard output\n"
        "  --pool ID      blocks of this pool only\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all tenants; other users see sums.\n";

enum { SNAPSHOT_OUTPUT = OPTION_OWN };

struct snapshot_options {
        const char *output;
};

static const char *state_of(uint32_t state)
{
        switch (state) {
        case LISTED_LEASED:
        case LISTED_SUM:
                return "active_allocated";
        case LISTED_LINGERING:
                return "active_pending_free";
        default:
                return "inactive";
        }
}

static json_t *frames_of(const struct node_state *node, const struct block_row *block)
{
        const struct client_row *client = client_of_block(block, (const void *)node->clients.rows,
                                                          node->clients.n_rows);
        const struct span span = {
                .state = (enum listed_block)block->state,
                .uid = block->uid,
                .pid = block->pid,
                .n_owners = 1,
                .program = client ? client->program : NULL,
                .container = client ? client->container : NULL,
        };
        char text[SPAN_TEXT_MAX];

        span_describe(&span, text);
        return json_pack("[{s:s, s:I, s:s}]", "filename", "gpumemd", "line",
                         json_figure(block->pid), "name", text);
}

static json_t *block_to_json(const struct node_state *node, const struct block_row *block,
                             uint64_t address)
{
        return json_pack("[{s:I, s:I, s:I, s:s, s:o}]", "address", json_figure(address), "size",
                         json_figure(block->bytes), "requested_size", json_figure(block->bytes),
                         "state", state_of(block->state), "frames", frames_of(node, block));
}

/* What the layout does not have. */
static json_t *own_to_json(const struct block_row *block)
{
        return json_pack("{s:I, s:I, s:s, s:s, s:o, s:I, s:I}", "block", json_figure(block->block),
                         "pool", json_figure(block->pool), "kind", format_pool_kind(block->kind),
                         "state", listed_block_name(block->state), "uid",
                         block->uid == LISTING_NOBODY ? json_null() : json_integer(block->uid),
                         "pid", json_figure(block->pid), "blocks_count",
                         json_figure(block->blocks));
}

static json_t *segment_to_json(const struct node_state *node, const struct block_row *block,
                               uint64_t address)
{
        bool is_allocated = strcmp(state_of(block->state), "active_allocated") == 0;
        bool is_active = strcmp(state_of(block->state), "inactive") != 0;
        json_int_t size = json_figure(block->bytes);

        return json_pack(
                "{s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:s, s:[ii], s:b, s:o, s:o, s:o}", "device",
                json_figure(block->pool), "address", json_figure(address), "total_size", size,
                "allocated_size", is_allocated ? size : 0, "active_size", is_active ? size : 0,
                "requested_size", is_allocated ? size : 0, "stream", 0, "segment_type", "large",
                "segment_pool_id", 0, 0, "is_expandable", 0, "frames", frames_of(node, block),
                "blocks", block_to_json(node, block, address), "gpumemd", own_to_json(block));
}

static json_t *segments_to_json(const struct node_state *node)
{
        const struct block_row *blocks = (const void *)node->blocks.rows;
        uint64_t address = FIRST_ADDRESS;
        json_t *segments = json_array();

        for (uint32_t i = 0; i < node->blocks.n_rows; i++) {
                if (!blocks[i].bytes)
                        continue;
                if (json_array_append_new(segments, segment_to_json(node, &blocks[i], address))) {
                        json_decref(segments);
                        return NULL;
                }
                address += blocks[i].bytes;
        }
        return segments;
}

/* One of no events for each device. */
static json_t *traces_to_json(const struct pool_stats *pool_stats)
{
        uint32_t n = 0;
        json_t *traces = json_array();

        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->pools[i].id < PROTO_POOLS_MAX && pool_stats->pools[i].id >= n)
                        n = pool_stats->pools[i].id + 1;
        }
        while (n--)
                (void)json_array_append_new(traces, json_array());
        return traces;
}

static json_t *to_json(const struct node_state *node)
{
        return json_pack("{s:o, s:o, s:{}, s:[]}", "segments", segments_to_json(node),
                         "device_traces", traces_to_json(&node->pool_stats), "allocator_settings",
                         "external_annotations");
}

static int report_unwritten(const char *path, int error)
{
        (void)fprintf(stderr, "gpumemctl: --output: %s: %s\n", path, strerror(error));
        return STATUS_FAILURE;
}

static int write_file(const json_t *value, const char *path)
{
        FILE *file = fopen(path, "we");
        int r = 0;

        if (!file)
                return report_unwritten(path, errno);
        (void)(json_dumpf(value, file, JSON_INDENT(2)) || fputc('\n', file));
        if (ferror(file))
                r = EIO;
        if (fclose(file))
                r = errno;
        return r ? report_unwritten(path, r) : STATUS_OK;
}

static int run(struct link *link, const struct arguments *arguments)
{
        const struct snapshot_options *own = arguments->own;
        CLEANUP(node_state_deinit)
        struct node_state node = NODE_STATE_NULL;
        json_t *value;
        int r, status;

        r = node_state_fetch(link, arguments->pool, &node);
        if (r)
                return report_refusal(link, "snapshot", r);
        value = to_json(&node);
        if (!own->output || strcmp(own->output, "-") == 0)
                return print_json_value(value);
        if (!value)
                return report_failure("snapshot", -ENOMEM);
        status = write_file(value, own->output);
        json_decref(value);
        return status;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct snapshot_options *own = arguments->own;

        (void)id;
        return parse_file("--output", value, &own->output);
}

static const struct option options[] = {
        COMMAND_OPTION_POOL,
        {"output", required_argument, NULL, SNAPSHOT_OUTPUT},
        COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"output", "@file", NULL},
        COMMAND_VALUES_END,
};

const struct command snapshot_command = {
        .name = "snapshot",
        .line = "all blocks, in the format of PyTorch's memory snapshots",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct snapshot_options),
};
