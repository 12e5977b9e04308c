/* gpumemctl blocks: each block, and in whose hands it is. */
#include "ctl/listing.h"

static const char help[] =
        "Usage: gpumemctl blocks [OPTION]...\n"
        "Shows each block of memory that the driver made for gpumemd.\n"
        "\n"
        "  STATE      leased; idle: leased, but not used; cached; lingering\n"
        "  PID, UID   who is charged\n"
        "  HOLDERS    leases that it is in: more than one is shared memory\n"
        "  IN-STATE   for so long it has been in that state\n"
        "\n"
        "  --pool ID  of this pool only; gpumemctl stats lists them\n"
        "  --json     for programs: sizes in bytes, and more figures\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all; of other tenants there are sums.\n";

static const struct listing listing = {"blocks", MESSAGE_BLOCKS, MESSAGE_BLOCKS_REPLY,
                                       &block_row_list};

static int run(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        request.blocks.pool = arguments->pool;
        return listing_show(link, &listing, &request, arguments);
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_POOL,
                                        COMMAND_OPTIONS_END};

const struct command blocks_command = {
        .name = "blocks",
        .line = "each block: its size, state, owner and age",
        .help = help,
        .options = options,
        .run = run,
};
