/* gpumemctl blocks: each block, and in whose hands it is. */
#include "ctl/listing.h"
#include "ctl/view_options.h"

static const char help[] =
        "Usage: gpumemctl blocks [OPTION]...\n"
        "Shows each block of memory that the driver made for gpumemd.\n"
        "\n"
        "  STATE      leased; idle: leased, but not used; cached; lingering\n"
        "  PID, UID   who is charged\n"
        "  HOLDERS    leases that it is in: more than one is shared memory\n"
        "  IN-STATE   for so long it has been in that state\n"
        "\n"
        "  --pool ID        of this pool only; gpumemctl stats lists them\n"
        "  --pid N          charged to this process only\n"
        "  --uid USER       charged to this user's tenants only; a name or a uid\n"
        "  --state STATE    leased, idle, cached, lingering; others\n"
        "  --min-size SIZE  of at least so much: 64MiB\n"
        "  --sort COLUMN    by this column; --reverse: the largest first\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more figures\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all; of other tenants there are sums.\n";

static const char *const narrow[] = {"block",   "pool",  "kind",  "state",     "uid", "pid",
                                     "holders", "bytes", "lease", "state_age", NULL};

static const struct listing listing = {"blocks", MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY,
                                       &block_row_list};

static int run(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        request.blocks.pool = arguments->pool;
        return listing_show(link, &listing, narrow, &request, arguments, arguments->own);
}

static int take(int id, const char *value, struct arguments *arguments)
{
        return view_take(arguments->own, &block_row_list, id, value);
}

static const struct option options[] = {
        COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE,     COMMAND_OPTION_POOL,  VIEW_OPTION_PID,
        VIEW_OPTION_UID,     VIEW_OPTION_BLOCK_STATE, VIEW_OPTION_MIN_SIZE, VIEW_OPTION_SORT,
        VIEW_OPTION_REVERSE, COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"state", "leased idle cached lingering others", NULL},
        {"sort", NULL, &block_row_list},
        COMMAND_VALUES_END,
};

const struct command blocks_command = {
        .name = "blocks",
        .line = "each block: its size, state, owner and age",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct view),
};
