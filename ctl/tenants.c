/* gpumemctl tenants: what each tenant has in each pool. */
#include "ctl/listing.h"
#include "ctl/view_options.h"

static const char help[] =
        "Usage: gpumemctl tenants [OPTION]...\n"
        "Shows what each tenant has in each pool: a user, or a user in a container.\n"
        "\n"
        "  PEAK       highest RESERVED since gpumemd's start, or the last reset-peaks\n"
        "  Other words are those of gpumemctl stats --help.\n"
        "\n"
        "  --uid USER       of this user only; a name or a uid\n"
        "  --sort COLUMN    by this column; --reverse: the largest first\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more figures\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all; of other tenants there are sums.\n";

static const char *const narrow[] = {"uid",    "pool",   "kind",    "reserved",  "leased", "idle",
                                     "cached", "blocks", "clients", "container", NULL};

static const struct listing listing = {"tenants", MESSAGE_TENANTS, MESSAGE_TENANTS_REPLY,
                                       &tenant_row_list};

static int run(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        return listing_show(link, &listing, narrow, &request, arguments, arguments->own);
}

static int take(int id, const char *value, struct arguments *arguments)
{
        return view_take(arguments->own, &tenant_row_list, id, value);
}

static const struct option options[] = {
        COMMAND_OPTION_JSON, COMMAND_OPTION_WIDE, VIEW_OPTION_UID,
        VIEW_OPTION_SORT,    VIEW_OPTION_REVERSE, COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"sort", NULL, &tenant_row_list},
        COMMAND_VALUES_END,
};

const struct command tenants_command = {
        .name = "tenants",
        .line = "what each tenant has in each pool",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct view),
};
