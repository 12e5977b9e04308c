/* gpumemctl free-all: cached and idle blocks go back to the driver. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/commands.h"

static const char help[] =
        "Usage: gpumemctl free-all [OPTION]...\n"
        "Gives blocks that are cached, or in leases that are idle, back to the driver,\n"
        "and ends when that has happened.\n"
        "\n"
        "  --pool ID  of this pool only; default: of all\n"
        "  --tenant   the caller's own only; default: every tenant's, for root and who\n"
        "             may open the admin socket (PATH.admin)\n"
        "  --json     for programs: freed_bytes, freed_blocks\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        char text[SIZE_TEXT_MAX];
        int r;

        request.free_all_blocks.scope = arguments->scope;
        request.free_all_blocks.pool = arguments->pool;
        r = link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
        if (r)
                return report_refusal_of(link, "free-all", r, arguments);
        if (arguments->output == OUTPUT_JSON)
                return print_json_value(json_pack("{s:I, s:I}", "freed_bytes",
                                                  (json_int_t)reply.freed.n_bytes, "freed_blocks",
                                                  (json_int_t)reply.freed.n_blocks));
        (void)printf("%s in %" PRIu64 " %s went back to the driver\n",
                     size_format(reply.freed.n_bytes, text), reply.freed.n_blocks,
                     reply.freed.n_blocks == 1 ? "block" : "blocks");
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
