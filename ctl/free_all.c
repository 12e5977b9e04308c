/* gpumemctl free-all: cached and idle blocks go back to the driver. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/commands.h"
#include "ctl/figures.h"

static const char help[] =
        "Usage: gpumemctl free-all [OPTION]...\n"
        "Gives blocks that are cached, or in leases that are idle, back to the driver,\n"
        "and ends when that has happened. What processes keep mapped or registered has\n"
        "not gone back: gpumemctl leaks and blocks say whose it is.\n"
        "\n"
        "  --pool ID  of this pool only; default: of all\n"
        "  --tenant   the caller's own only; default: every tenant's, for root and who\n"
        "             may open the admin socket (PATH.admin)\n"
        "  --json     for programs: freed_bytes, freed_blocks, lingering_bytes\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

/* What is mapped in processes still, or registered there, of the pools that are meant. */
static int fetch_lingering(struct link *link, uint32_t pool, uint64_t *ret_n_bytes)
{
        CLEANUP(figures_deinit)
        struct figures figures = {.n = 0};
        uint64_t n_bytes = 0;
        int r = figures_fetch(link, &figures);

        if (r)
                return r;
        for (uint32_t i = 0; i < figures.n; i++) {
                if (pool == PROTO_ALL_POOLS || figures.stats[i].pool == pool)
                        n_bytes += figures.stats[i].lingering;
        }
        *ret_n_bytes = n_bytes;
        return 0;
}

static void print_line(const struct message_freed *freed, uint64_t n_lingering_bytes)
{
        char text[SIZE_TEXT_MAX];

        (void)printf("%s in %" PRIu64 " %s went back to the driver",
                     size_format(freed->n_bytes, text), freed->n_blocks,
                     freed->n_blocks == 1 ? "block" : "blocks");
        if (n_lingering_bytes)
                (void)printf("; %s stay mapped or registered in processes until they unmap them "
                             "(gpumemctl leaks, blocks)",
                             size_format(n_lingering_bytes, text));
        (void)printf("\n");
}

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        uint64_t n_lingering_bytes;
        int r;

        request.free_all_blocks.scope = arguments->scope;
        request.free_all_blocks.pool = arguments->pool;
        r = link_call(link, &request, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED, &reply, &fds);
        if (!r)
                r = fetch_lingering(link, arguments->pool, &n_lingering_bytes);
        if (r)
                return report_refusal_of(link, "free-all", r, arguments);
        if (arguments->output == OUTPUT_JSON)
                return print_json_value(json_pack(
                        "{s:I, s:I, s:I}", "freed_bytes", json_figure(reply.freed.n_bytes),
                        "freed_blocks", json_figure(reply.freed.n_blocks), "lingering_bytes",
                        json_figure(n_lingering_bytes)));
        print_line(&reply.freed, n_lingering_bytes);
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
