/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl status, and gpumemctl alone: one screen that says whether gpumemd serves, who has what, and what to try
 * next. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "client/connection/connect.h"
#include "client/connection/query.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/format.h"
#include "ctl/output/screen.h"
#include "ctl/output/table.h"
#include "ctl/query/node_health.h"
#include "ctl/top/top_rows.h"
#include "gpumem.h"
#include "proto/address.h"

#define WIDTH       80
#define WIDTH_MAX   200
#define NAME_WIDTH  20
#define BAR_MIN     8
#define CLIENTS_MAX 5
#define NS_PER_MS   1e6

/* Before a bar: the pool's number and name. Behind it: what is reserved, and the limit. */
#define HEAD_WIDTH (NAME_WIDTH + 5)
#define TAIL       " %11s of %11s"
#define TAIL_WIDTH 27

static const char help[] =
        "Usage: gpumemctl status [OPTION]...\n"
        "Shows on one screen whether gpumemd answers, how busy it is, what each pool\n"
        "holds, the clients that hold most, warnings, and what to try next. gpumemctl\n"
        "alone does the same.\n"
        "\n"
        "  |  leased and in use, or declared: held since before gpumemd's start\n"
        "  i  idle: leased, but not used at present\n"
        "  =  cached\n"
        "  ~  lingering: on the way back to the driver, or perhaps still mapped\n"
        "  #  used on the device by other programs, as NVML reports\n"
        "\n"
        "A bar is the whole device, or what a pool of pinned memory may be. The sizes\n"
        "behind it are RESERVED and OF of gpumemctl stats: OF is the pool's limit.\n"
        "\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Exit status: 0 gpumemd answers, 1 it refused or failed, 3 it is not reachable.\n"
        "For probes use gpumemctl health; for programs stats, clients and health, which\n"
        "have JSON.\n";

/* "0.2.0", of the event that says "gpumemd 0.2.0 started". */
#define VERSION_MAX 32

static void find_version(const struct event_row *started, char version[static VERSION_MAX])
{
        if (sscanf(started->text, "gpumemd %31s started", version) != 1)
                (void)snprintf(version, VERSION_MAX, "unknown");
}

static const struct event_row *find_start(const struct event_rows *events)
{
        for (uint32_t i = 0; i < events->n; i++) {
                if (events->rows[i].what == LISTED_EVENT_STARTED)
                        return &events->rows[i];
        }
        return NULL;
}

/* Programs connect to the socket whose name is without ".admin". */
static void print_head(struct link *link, const struct event_rows *events)
{
        const struct event_row *started = find_start(events);
        char name[CONNECT_NAME_MAX], version[VERSION_MAX] = "unknown", age[TABLE_CELL_MAX];
        const size_t n_suffix = strlen(ADDRESS_ADMIN_SUFFIX);
        size_t n;

        (void)connect_name(link_socket(link), name);
        n = strlen(name);
        if (n > n_suffix && strcmp(name + n - n_suffix, ADDRESS_ADMIN_SUFFIX) == 0)
                name[n - n_suffix] = '\0';
        (void)printf("%s answers.\n", name);
        if (!started) {
                (void)printf("Its version is not known.\n");
                return;
        }
        find_version(started, version);
        format_time(age, started->age);
        (void)printf("Version %s, started %s ago.\n", version, age);
}

/* An older gpumemd does not tell. */
static int print_loop(struct link *link)
{
        struct message_loop_is loop;
        int r = query_loop(link, &loop);

        if (r)
                return r == GPUMEM_E_UNKNOWN_KIND ? 0 : r;
        (void)printf("Loop: %.2f %% busy, %" PRIu64 " of %" PRIu64
                     " steps above %.2f ms, longest %.2f ms.\n",
                     loop.age ? 100 * (double)loop.busy / (double)loop.age : 0, loop.late_steps,
                     loop.steps, (double)loop.late_after / NS_PER_MS,
                     (double)loop.longest_step / NS_PER_MS);
        return 0;
}

static unsigned line_width(void)
{
        unsigned width = screen_width(WIDTH);

        return width < WIDTH_MAX ? width : WIDTH_MAX;
}

static void print_bar(const unsigned cells[static TOP_PARTS], unsigned width)
{
        static const char marks[TOP_PARTS] = {
                [TOP_PART_USED] = '|',      [TOP_PART_IDLE] = 'i',   [TOP_PART_CACHED] = '=',
                [TOP_PART_LINGERING] = '~', [TOP_PART_OTHERS] = '#',
        };
        unsigned n = 0;

        (void)putchar('[');
        for (unsigned part = 0; part < TOP_PARTS; part++) {
                for (unsigned i = 0; i < cells[part]; i++, n++)
                        (void)putchar(marks[part]);
        }
        (void)printf("%*s]", (int)(width - n), "");
}

static void print_pool(const struct pool_row *pool, const struct stats_row *stats, unsigned columns)
{
        char reserved[SIZE_TEXT_MAX], max[SIZE_TEXT_MAX], head[64], tail[64];
        unsigned cells[TOP_PARTS];
        int width;

        (void)snprintf(head, sizeof(head), "%3" PRIu32 " %-*.*s ", pool->id, NAME_WIDTH, NAME_WIDTH,
                       pool_stats_short_name(pool));
        (void)snprintf(tail, sizeof(tail), TAIL, size_format(stats->reserved, reserved),
                       size_format(stats->max, max));
        width = (int)columns - (int)strlen(head) - (int)strlen(tail) - 2;
        (void)fputs(head, stdout);
        if (width >= BAR_MIN) {
                (void)top_bar(pool, stats, (unsigned)width, cells);
                print_bar(cells, (unsigned)width);
        }
        (void)puts(tail);
}

static void print_pools(const struct pool_stats *pool_stats)
{
        unsigned columns = line_width();
        bool has_bars = columns >= HEAD_WIDTH + BAR_MIN + 2 + TAIL_WIDTH;

        (void)printf("%-*s" TAIL "\n", has_bars ? (int)columns - TAIL_WIDTH : HEAD_WIDTH,
                     has_bars ? "Pools: | in use i idle = cached ~ lingering # others " : "Pools:",
                     "RESERVED", "OF");
        for (uint32_t i = 0; i < pool_stats->n; i++)
                print_pool(&pool_stats->pools[i], &pool_stats->stats[i], columns);
}

/* This program's own connection is not of interest. */
static bool is_own(uint32_t pid)
{
        return pid == (uint32_t)getpid();
}

static uint64_t count_clients(const struct listed *listed)
{
        const struct client_row *clients = (const void *)listed->rows;
        uint64_t n = 0;

        for (uint32_t i = 0; i < listed->n_rows; i++)
                n += is_own(clients[i].pid) ? 0 : clients[i].clients;
        return n;
}

static void print_name(const char *name)
{
        char text[TABLE_CELL_MAX];

        (void)snprintf(text, sizeof(text), "%.*s", (int)table_fit(name, NAME_WIDTH), name);
        table_put(text, NAME_WIDTH, TABLE_LEFT, stdout);
}

static void print_client(const struct top_row *row)
{
        char leased[SIZE_TEXT_MAX], idle[SIZE_TEXT_MAX], declared[SIZE_TEXT_MAX];

        if (row->pid)
                (void)printf("  %-7" PRIu32 " ", row->pid);
        else
                (void)printf("  %-7s ", "-");
        print_name(!row->pid                       ? "other tenants"
                   : row->program && *row->program ? row->program
                                                   : "-");
        (void)printf(" %11s leased", size_format(row->n_leased, leased));
        if (row->n_idle)
                (void)printf(", %s idle", size_format(row->n_idle, idle));
        if (row->n_declared)
                (void)printf(", %s declared", size_format(row->n_declared, declared));
        if (row->n_waiting)
                (void)printf(", %" PRIu64 " waiting", row->n_waiting);
        (void)putchar('\n');
}

static int print_clients(const struct node_state *node)
{
        CLEANUP(freep)
        struct top_row *rows = NULL;
        uint64_t n_clients = count_clients(&node->clients);
        unsigned n, n_shown = 0, n_left_out = 0;

        if (top_rows_make((const void *)node->blocks.rows, node->blocks.n_rows,
                          (const void *)node->clients.rows, node->clients.n_rows, PROTO_ALL_POOLS,
                          &rows, &n))
                return -ENOMEM;
        top_rows_sort(rows, n, TOP_LEASED, false);
        (void)printf("\nClients: %" PRIu64 "\n", n_clients);
        for (unsigned i = 0; i < n; i++) {
                if (is_own(rows[i].pid))
                        continue;
                if (n_shown++ < CLIENTS_MAX)
                        print_client(&rows[i]);
                else
                        n_left_out++;
        }
        if (n_left_out)
                (void)printf("  and %u more with less: gpumemctl clients\n", n_left_out);
        return 0;
}

static void print_waiting(const struct pool_row *pool, const struct stats_row *stats)
{
        if (stats->waiting)
                (void)printf("waiting: pool %" PRIu32 " (%s): %" PRIu64
                             " %s for memory: gpumemctl blocks --pool %" PRIu32 "\n",
                             pool->id, pool->name, stats->waiting,
                             stats->waiting == 1 ? "request waits" : "requests wait", pool->id);
}

/* Returns whether there is any. */
static bool print_warnings(const struct node_health *health)
{
        const struct pool_stats *pool_stats = &health->node.pool_stats;
        uint64_t n_waiting = 0;

        for (uint32_t i = 0; i < pool_stats->n; i++)
                n_waiting += pool_stats->stats[i].waiting;
        if (!health->findings.n && !n_waiting)
                return false;
        (void)printf("\nWarnings:\n");
        for (unsigned i = 0; i < health->findings.n; i++)
                node_health_print(health, &health->findings.findings[i]);
        for (uint32_t i = 0; i < pool_stats->n; i++)
                print_waiting(&pool_stats->pools[i], &pool_stats->stats[i]);
        return true;
}

static void print_next_steps(bool has_warnings)
{
        (void)printf("\nTry next:\n"
                     "  gpumemctl top      watch pools and clients change\n");
        if (has_warnings)
                (void)printf("  gpumemctl events   what happened lately\n");
        else
                (void)printf("  gpumemctl clients  what each process holds\n");
        (void)printf("  gpumemctl help     all commands\n");
}

static int show(struct link *link)
{
        CLEANUP(node_health_deinit)
        struct node_health health = NODE_HEALTH_NULL;
        int r = node_health_fetch(link, NODE_HEALTH_LINGERING_S * UINT64_C(1000), &health);

        if (r)
                return report_refusal(link, "status", r);
        print_head(link, &health.events);
        r = print_loop(link);
        if (r)
                return report_refusal(link, "status", r);
        (void)putchar('\n');
        print_pools(&health.node.pool_stats);
        r = print_clients(&health.node);
        if (r)
                return report_failure("status", r);
        print_next_steps(print_warnings(&health));
        return STATUS_OK;
}

static int run(struct link *none, const struct arguments *arguments)
{
        struct link *link;
        int r, status;

        (void)none;
        r = connect_to_daemon(arguments, &link);
        if (r)
                return report_no_connection(r, arguments);
        status = show(link);
        link_free(link);
        return status;
}

static const struct option options[] = {COMMAND_OPTIONS_END};

const struct command status_command = {
        .name = "status",
        .line = "one screen: pools, clients, warnings, what to try next",
        .help = help,
        .options = options,
        .run = run,
        .link = COMMAND_LINKS,
};
