/* gpumemctl clients: who holds what. */
#include "ctl/listing.h"
#include "ctl/view_options.h"

static const char help[] =
        "Usage: gpumemctl clients [OPTION]...\n"
        "Shows each client: a program's connection, and what it holds.\n"
        "\n"
        "  DEV-, PIN-  device memory, pinned memory\n"
        "  LEASED      in its leases; IDLE is the part that it does not use at present\n"
        "  ATTACHED    leased by a token, and charged to another client\n"
        "  LINGERING   taken from it, but perhaps still mapped by it\n"
        "  REQUESTED   in allocations, as it reports\n"
        "  KEPT        in the cache, but kept mapped by it\n"
        "  STATE       ready; left: it may still map what it had; orphaned: a child\n"
        "              holds its connection\n"
        "\n"
        "  --pid N          this process only\n"
        "  --uid USER       of this user only; a name or a uid\n"
        "  --state STATE    ready, left, orphaned; others: the sum of other tenants\n"
        "  --sort COLUMN    by this column; --reverse: the largest first\n"
        "  --wide           all columns, and longer sizes\n"
        "  --json           for programs: sizes in bytes, and more figures\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n"
        "Only root and gpumemd's user see all; of other tenants there are sums.\n";

static const char *const narrow[] = {"pid",           "uid",         "state",
                                     "device_leased", "device_idle", "pinned_leased",
                                     "program",       "container",   NULL};

static const struct listing listing = {"clients", MESSAGE_CLIENTS, MESSAGE_CLIENTS_REPLY,
                                       &client_row_list};

static int run(struct link *link, const struct arguments *arguments)
{
        struct frame request = FRAME_NULL;

        return listing_show(link, &listing, narrow, &request, arguments, arguments->own);
}

static int take(int id, const char *value, struct arguments *arguments)
{
        return view_take(arguments->own, &client_row_list, id, value);
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,      COMMAND_OPTION_WIDE, VIEW_OPTION_PID,     VIEW_OPTION_UID,
        VIEW_OPTION_CLIENT_STATE, VIEW_OPTION_SORT,    VIEW_OPTION_REVERSE, COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"state", "ready left orphaned others", NULL},
        {"sort", NULL, &client_row_list},
        COMMAND_VALUES_END,
};

const struct command clients_command = {
        .name = "clients",
        .line = "who holds what, a row each connected program",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct view),
};
