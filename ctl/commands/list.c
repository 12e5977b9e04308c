/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl blocks, clients, tenants: what the daemon lists, a row each. */
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/listing.h"
#include "ctl/query/pool_stats.h"

#define COLUMNS_MAX 512

enum filter_option {
        FILTER_PID = OPTION_OWN,
        FILTER_UID,
        FILTER_BLOCK_STATE,
        FILTER_CLIENT_STATE,
        FILTER_MIN_SIZE,
        FILTER_SORT,
        FILTER_REVERSE,
};

#define FILTER_OPTION_PID ((struct option){"pid", required_argument, NULL, FILTER_PID})
#define FILTER_OPTION_UID ((struct option){"uid", required_argument, NULL, FILTER_UID})
#define FILTER_OPTION_BLOCK_STATE \
        ((struct option){"state", required_argument, NULL, FILTER_BLOCK_STATE})
#define FILTER_OPTION_CLIENT_STATE \
        ((struct option){"state", required_argument, NULL, FILTER_CLIENT_STATE})
#define FILTER_OPTION_MIN_SIZE \
        ((struct option){"min-size", required_argument, NULL, FILTER_MIN_SIZE})
#define FILTER_OPTION_SORT    ((struct option){"sort", required_argument, NULL, FILTER_SORT})
#define FILTER_OPTION_REVERSE ((struct option){"reverse", no_argument, NULL, FILTER_REVERSE})

static int take_pid(struct filter *filter, const struct row_list *list, const char *text)
{
        uint64_t pid;

        /* 0 stands for no process: of a block that is not charged, and of other tenants. */
        if (parse_number(text, &pid) || pid == 0 || pid > INT32_MAX)
                return parse_refuse("--pid", text, "1-2147483647");
        filter_add(filter, list, "pid", FILTER_EQUAL, pid);
        return 0;
}

static int take_uid(struct filter *filter, const struct row_list *list, const char *text)
{
        uint32_t uid;

        if (parse_user(text, &uid))
                return parse_refuse("--uid", text, "a uid or a user name");
        filter_add(filter, list, "uid", FILTER_EQUAL, uid);
        return 0;
}

static int take_state(struct filter *filter, const struct row_list *list, const char *text,
                      const char *(*name)(uint64_t state), uint64_t last, const char *allowed)
{
        for (uint64_t state = 1; state <= last; state++) {
                if (strcmp(text, name(state)) == 0) {
                        filter_add(filter, list, "state", FILTER_EQUAL, state);
                        return 0;
                }
        }
        return parse_refuse("--state", text, allowed);
}

/* A sum says nothing of each of several blocks. */
static int take_min_size(struct filter *filter, const struct row_list *list, const char *text)
{
        uint64_t n_bytes;

        if (size_parse(text, &n_bytes))
                return parse_refuse("--min-size", text, "a size such as 64MiB");
        filter_add(filter, list, "bytes", FILTER_AT_LEAST, n_bytes);
        filter_add(filter, list, "blocks", FILTER_EQUAL, 1);
        return 0;
}

static int take_sort(struct filter *filter, const struct row_list *list, const char *text)
{
        char columns[COLUMNS_MAX];

        if (filter_set_sort(filter, list, text) == 0)
                return 0;
        filter_list_columns(list, columns, sizeof(columns));
        return parse_refuse("--sort", text, columns);
}

/* As struct command's `take`, of a command whose own memory is a struct filter. */
static int filter_take(struct filter *filter, const struct row_list *list, int id,
                       const char *value)
{
        switch ((enum filter_option)id) {
        case FILTER_PID:
                return take_pid(filter, list, value);
        case FILTER_UID:
                return take_uid(filter, list, value);
        case FILTER_BLOCK_STATE:
                return take_state(filter, list, value, listed_block_name, LISTED_IDLE,
                                  "leased, idle, cached, lingering, others");
        case FILTER_CLIENT_STATE:
                return take_state(filter, list, value, listed_client_name, LISTED_OTHERS,
                                  "ready, left, orphaned, others");
        case FILTER_MIN_SIZE:
                return take_min_size(filter, list, value);
        case FILTER_SORT:
                return take_sort(filter, list, value);
        case FILTER_REVERSE:
                filter->is_reverse = true;
                return 0;
        }
        return -EINVAL;
}

static const char clients_help[] =
        "Usage: gpumemctl clients [OPTION]...\n"
        "Shows each client, that is each program's connection, and what it holds.\n"
        "\n"
        "  DEV-, PIN-  device memory, pinned memory\n"
        "  LEASED      in its leases; IDLE is the part that it does not use at present\n"
        "  ATTACHED    leased by a token, and charged to another client\n"
        "  LINGERING   taken from the client, but perhaps still mapped by it\n"
        "  CHARGED     leased, lingering, kept and DECLARED, of an earlier gpumemd\n"
        "  REQUESTED   in allocations, as the client reports\n"
        "  REGISTERED  part of LEASED: in registered blocks, which are never idle\n"
        "  KEPT        in the cache, but kept mapped by the client\n"
        "  STATE       ready; left: it may still map memory; orphaned: a child process\n"
        "              holds its connection\n"
        "\n"
        "  --pid N          this process only\n"
        "  --uid USER       this user only; a name or a uid\n"
        "  --state STATE    ready, left, orphaned; others: the sum of other tenants\n"
        "  --sort COLUMN    amounts and ages: the largest first; others: the smallest;\n"
        "                   default: by the columns from the left, PID first\n"
        "  --reverse        the other way round\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more values\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all tenants; other users see sums.\n";

static const char *const clients_narrow[] = {"pid",           "uid",         "state",
                                             "device_leased", "device_idle", "pinned_leased",
                                             "program",       "container",   NULL};

static int run_clients(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        return listing_show(link, &listing_clients, clients_narrow, &request, arguments,
                            arguments->own);
}

static int take_clients(int id, const char *value, struct arguments *arguments)
{
        return filter_take(arguments->own, &client_row_list, id, value);
}

static const struct option clients_options[] = {
        COMMAND_OPTION_JSON,        COMMAND_OPTION_WIDE, FILTER_OPTION_PID,     FILTER_OPTION_UID,
        FILTER_OPTION_CLIENT_STATE, FILTER_OPTION_SORT,  FILTER_OPTION_REVERSE, COMMAND_OPTIONS_END,
};

static const struct command_value clients_values[] = {
        {"state", "ready left orphaned others", NULL},
        {"sort", NULL, &client_row_list},
        COMMAND_VALUES_END,
};

const struct command clients_command = {
        .name = "clients",
        .line = "each connected program and what it holds",
        .help = clients_help,
        .options = clients_options,
        .values = clients_values,
        .take = take_clients,
        .run = run_clients,
        .n_own_bytes = sizeof(struct filter),
};

static const char blocks_help[] =
        "Usage: gpumemctl blocks [OPTION]...\n"
        "Shows each block of memory that the driver made for gpumemd.\n"
        "\n"
        "  STATE      leased; idle: leased, but not used; cached; lingering\n"
        "  PID, UID   the process that is charged, and its user\n"
        "  HOLDERS    number of leases of the block: more than one is shared memory\n"
        "  IN-STATE   time in that state\n"
        "\n"
        "  --pool ID        of this pool only; gpumemctl stats lists the pools\n"
        "  --pid N          charged to this process only\n"
        "  --uid USER       charged to this user's tenants only; a name or a uid\n"
        "  --state STATE    leased, idle, cached, lingering; others\n"
        "  --min-size SIZE  of this size or larger, such as 64MiB\n"
        "  --sort COLUMN    amounts and ages: the largest first; others: the smallest;\n"
        "                   default: by the columns from the left, BLOCK first\n"
        "  --reverse        the other way round\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more values\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all tenants; other users see sums.\n";

static const char *const blocks_narrow[] = {"block",   "pool",  "kind",  "state",     "uid", "pid",
                                            "holders", "bytes", "lease", "state_age", NULL};

static int run_blocks(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        request.blocks.pool = arguments->pool;
        return listing_show(link, &listing_blocks, blocks_narrow, &request, arguments,
                            arguments->own);
}

static int take_blocks(int id, const char *value, struct arguments *arguments)
{
        return filter_take(arguments->own, &block_row_list, id, value);
}

static const struct option blocks_options[] = {
        COMMAND_OPTION_JSON,    COMMAND_OPTION_WIDE, COMMAND_OPTION_POOL,
        FILTER_OPTION_PID,      FILTER_OPTION_UID,   FILTER_OPTION_BLOCK_STATE,
        FILTER_OPTION_MIN_SIZE, FILTER_OPTION_SORT,  FILTER_OPTION_REVERSE,
        COMMAND_OPTIONS_END,
};

static const struct command_value blocks_values[] = {
        {"state", "leased idle cached lingering others", NULL},
        {"sort", NULL, &block_row_list},
        COMMAND_VALUES_END,
};

const struct command blocks_command = {
        .name = "blocks",
        .line = "each block: size, state, owner, age",
        .help = blocks_help,
        .options = blocks_options,
        .values = blocks_values,
        .take = take_blocks,
        .run = run_blocks,
        .n_own_bytes = sizeof(struct filter),
};

static const char tenants_help[] =
        "Usage: gpumemctl tenants [OPTION]...\n"
        "Shows what each tenant has in each pool: a user, or a user in a container.\n"
        "\n"
        "  PEAK       highest RESERVED since gpumemd's start, or the last reset-peaks\n"
        "  Other words are explained by gpumemctl help stats.\n"
        "\n"
        "  --pool ID        in this pool only; gpumemctl stats lists the pools\n"
        "  --uid USER       this user only; a name or a uid\n"
        "  --sort COLUMN    amounts and ages: the largest first; others: the smallest;\n"
        "                   default: by the columns from the left, UID first\n"
        "  --reverse        the other way round\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more values\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all tenants; other users see sums.\n";

static const char *const tenants_narrow[] = {"uid",     "pool",      "kind",   "reserved",
                                             "leased",  "idle",      "cached", "blocks",
                                             "clients", "container", NULL};

static int choose_pool(struct link *link, const struct arguments *arguments)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats pools = {.n = 0};
        int r;

        if (arguments->pool == PROTO_ALL_POOLS)
                return 0;
        r = pool_stats_fetch(link, &pools);
        if (!r)
                r = pool_stats_check_pool(&pools, arguments->pool);
        if (!r)
                filter_add(arguments->own, &tenant_row_list, "pool", FILTER_EQUAL, arguments->pool);
        return r;
}

static int run_tenants(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;
        int r = choose_pool(link, arguments);

        if (r)
                return report_refusal(link, "tenants", r);
        return listing_show(link, &listing_tenants, tenants_narrow, &request, arguments,
                            arguments->own);
}

static int take_tenants(int id, const char *value, struct arguments *arguments)
{
        return filter_take(arguments->own, &tenant_row_list, id, value);
}

static const struct option tenants_options[] = {
        COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE,   COMMAND_OPTION_POOL, FILTER_OPTION_UID,
        FILTER_OPTION_SORT,  FILTER_OPTION_REVERSE, COMMAND_OPTIONS_END,
};

static const struct command_value tenants_values[] = {
        {"sort", NULL, &tenant_row_list},
        COMMAND_VALUES_END,
};

const struct command tenants_command = {
        .name = "tenants",
        .line = "what each tenant has in each pool",
        .help = tenants_help,
        .options = tenants_options,
        .values = tenants_values,
        .take = take_tenants,
        .run = run_tenants,
        .n_own_bytes = sizeof(struct filter),
};
