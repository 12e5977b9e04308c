/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl reset-peaks: resets peaks to the current values. */
#include <jansson.h>

#include "base/err.h"
#include "ctl/core/command.h"
#include "ctl/core/report.h"

static const char help[] =
        "Usage: gpumemctl reset-peaks [OPTION]...\n"
        "Resets PEAK of tenants and of the wide table of stats, and the peaks of\n"
        "stats --json, to current values.\n"
        "\n"
        "  --pool ID  of this pool only; default: of all\n"
        "  --tenant   the caller's own only; default: every tenant's and the pools', for\n"
        "             which root or access to the admin socket (PATH.admin) is needed\n"
        "  --json     for programs: an empty object\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

static int run(struct link *link, const struct arguments *arguments)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.reset_peaks.scope = arguments->scope;
        request.reset_peaks.pool = arguments->pool;
        r = link_call(link, &request, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET, &reply, &fds);
        if (r)
                return report_refusal_of(link, "reset-peaks", r, arguments);
        return arguments->output == OUTPUT_JSON ? print_json_value(json_object()) : STATUS_OK;
}

static const struct option options[] = {COMMAND_OPTION_JSON, COMMAND_OPTION_POOL,
                                        COMMAND_OPTION_TENANT, COMMAND_OPTIONS_END};

const struct command reset_peaks_command = {
        .name = "reset-peaks",
        .line = "resets PEAK of tenants and stats --wide to current values",
        .help = help,
        .options = options,
        .run = run,
};
