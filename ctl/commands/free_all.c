/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl free-all: cached and idle blocks go back to the driver. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/core/command.h"
#include "ctl/core/report.h"
#include "ctl/query/node_state.h"
#include "ctl/query/process.h"
#include "ctl/query/what_stays.h"

static const char help[] =
        "Usage: gpumemctl free-all [OPTION]...\n"
        "Gives cached blocks, and blocks in idle leases, back to the driver, and waits\n"
        "for that. What processes hold, or keep mapped or registered, stays: a line for\n"
        "each such process says how much, and why. Of what it holds, the part that is in\n"
        "no allocation goes back when the process calls gpumem_flush or ends.\n"
        "\n"
        "  --pool ID  of this pool only; default: of all\n"
        "  --tenant   the caller's own only; default: every tenant's, which needs root or\n"
        "             access to the admin socket (PATH.admin)\n"
        "  --json     for programs: freed_bytes, freed_blocks, lingering_bytes, stays\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

/* That of this program. Its pid is another one in a PID namespace of its own: then all rows of its user count. */
static struct stay_tenant find_own_tenant(const struct node_state *node)
{
        const struct client_row *clients = (const void *)node->clients.rows;

        for (uint32_t i = 0; i < node->clients.n_rows; i++) {
                if (clients[i].pid == (uint32_t)getpid() && clients[i].uid == geteuid() &&
                    clients[i].state == LISTED_READY)
                        return (struct stay_tenant){clients[i].uid, clients[i].container};
        }
        return (struct stay_tenant){geteuid(), NULL};
}

/* Of the pools that are meant: mapped in processes still, or registered there. */
static uint64_t lingering_of_all(const struct pool_stats *pool_stats, uint32_t pool)
{
        uint64_t n_bytes = 0;

        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool == PROTO_ALL_POOLS || pool_stats->stats[i].pool == pool)
                        n_bytes += pool_stats->stats[i].lingering;
        }
        return n_bytes;
}

static int fetch_lingering(struct link *link, const struct stay_tenant *tenant, uint32_t pool,
                           uint64_t *ret_bytes)
{
        CLEANUP(listed_deinit)
        struct listed listed = {.n_rows = 0};
        struct frame request = FRAME_NULL;
        const struct tenant_row *rows;
        uint64_t n_bytes = 0;
        int r = listing_fetch(link, &listing_tenants, &request, &listed);

        if (r)
                return r;
        rows = (const void *)listed.rows;
        for (uint32_t i = 0; i < listed.n_rows; i++) {
                if ((pool == PROTO_ALL_POOLS || rows[i].pool == pool) &&
                    stay_tenant_is(tenant, rows[i].uid, rows[i].container))
                        n_bytes += rows[i].lingering;
        }
        *ret_bytes = n_bytes;
        return 0;
}

static void print_lines(const struct message_freed *freed, const struct stays *stays)
{
        char size[SIZE_TEXT_MAX], text[STAY_TEXT_MAX];

        (void)printf("%s in %" PRIu64 " %s went back to the driver\n",
                     size_format(freed->n_bytes, size), freed->n_blocks,
                     freed->n_blocks == 1 ? "block" : "blocks");
        for (uint32_t i = 0; i < stays->n; i++) {
                stay_text(&stays->stays[i], text);
                (void)printf("%s\n", text);
        }
}

/* Other tenants' processes are not told apart to this user. */
static void print_hidden(const struct node_state *node, uint64_t n_lingering_bytes)
{
        const struct block_row *blocks = (const void *)node->blocks.rows;
        char size[SIZE_TEXT_MAX];
        uint64_t n_shown_bytes = 0;
        bool has_others = false;

        for (uint32_t i = 0; i < node->blocks.n_rows; i++) {
                has_others = has_others || blocks[i].state == LISTED_SUM;
                if (blocks[i].state == LISTED_LINGERING)
                        n_shown_bytes += blocks[i].bytes;
        }
        if (has_others && n_lingering_bytes > n_shown_bytes)
                (void)printf("processes of other tenants keep %s mapped or registered: root sees "
                             "which\n",
                             size_format(n_lingering_bytes - n_shown_bytes, size));
}

static json_t *stays_to_json(const struct stays *stays)
{
        json_t *array = json_array();

        for (uint32_t i = 0; i < stays->n; i++) {
                const struct stay *stay = &stays->stays[i];
                char text[STAY_TEXT_MAX];

                stay_text(stay, text);
                (void)json_array_append_new(
                        array,
                        json_pack("{s:s, s:I, s:o, s:o, s:I, s:o, s:s}", "what",
                                  stay_name(stay->kind), "uid", json_figure(stay->uid), "pid",
                                  stay->pid ? json_integer(stay->pid) : json_null(), "program",
                                  *stay->program ? json_string(stay->program) : json_null(),
                                  "bytes", json_figure(stay->n_bytes), "allocated_bytes",
                                  stay->n_allocated_bytes == LISTING_UNTOLD
                                          ? json_null()
                                          : json_integer(json_figure(stay->n_allocated_bytes)),
                                  "text", text));
        }
        return array;
}

static int print_json(const struct message_freed *freed, const struct stays *stays,
                      uint64_t n_lingering_bytes)
{
        return print_json_value(
                json_pack("{s:I, s:I, s:I, s:o}", "freed_bytes", json_figure(freed->n_bytes),
                          "freed_blocks", json_figure(freed->n_blocks), "lingering_bytes",
                          json_figure(n_lingering_bytes), "stays", stays_to_json(stays)));
}

static void find_stays(const struct node_state *node, const struct stay_tenant *tenant,
                       uint32_t pool, struct stays *ret_stays)
{
        const struct client_row *clients = (const void *)node->clients.rows;
        uint32_t n = node->clients.n_rows;

        stays_find((const void *)node->blocks.rows, node->blocks.n_rows, clients, n, tenant,
                   ret_stays);
        /* A client is not asked by pool what it declares, nor what is in allocations. */
        if (pool == PROTO_ALL_POOLS) {
                stays_find_declared(ret_stays, clients, n, tenant);
                stays_find_allocated(ret_stays, clients, n);
        }
        stays_find_stopped(ret_stays, process_is_stopped);
}

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        CLEANUP(node_state_deinit)
        struct node_state node = NODE_STATE_NULL;
        CLEANUP(stays_deinit)
        struct stays stays = {.n = 0};
        bool is_of_all = arguments->scope != PROTO_SCOPE_TENANT;
        struct frame request = FRAME_NULL, reply;
        struct stay_tenant own;
        uint64_t n_lingering_bytes;
        int r;

        request.free_all_blocks.scope = arguments->scope;
        request.free_all_blocks.pool = arguments->pool;
        r = link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
        if (!r)
                r = node_state_fetch(link, arguments->pool, &node);
        own = find_own_tenant(&node);
        n_lingering_bytes = lingering_of_all(&node.pool_stats, arguments->pool);
        if (!r && !is_of_all)
                r = fetch_lingering(link, &own, arguments->pool, &n_lingering_bytes);
        if (r)
                return report_refusal_of(link, "free-all", r, arguments);
        find_stays(&node, is_of_all ? NULL : &own, arguments->pool, &stays);
        if (stays.is_short_of_memory)
                return report_failure("free-all", -ENOMEM);
        if (arguments->output == OUTPUT_JSON)
                return print_json(&reply.freed, &stays, n_lingering_bytes);
        print_lines(&reply.freed, &stays);
        if (is_of_all)
                print_hidden(&node, n_lingering_bytes);
        return STATUS_OK;
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_POOL,
                                        COMMAND_OPTION_TENANT, COMMAND_OPTIONS_END};

const struct command free_all_command = {
        .name = "free-all",
        .line = "gives cached and idle blocks back to the driver",
        .help = help,
        .options = options,
        .run = run,
};
