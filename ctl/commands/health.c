/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl health: is all well? For a probe, by the exit status; for people, in a line each. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "client/runtime/last_error.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/event_rows.h"
#include "ctl/query/health_rules.h"
#include "ctl/query/listing.h"
#include "ctl/query/pool_stats.h"
#include "gpumem.h"

#define LINGERING_S     60
#define LINGERING_S_MAX 1000000

static const char help[] =
        "Usage: gpumemctl health [OPTION]...\n"
        "Says whether gpumemd and its devices are well, a line each finding; for probes\n"
        "by the exit status: 0 well, 1 ill, 3 no gpumemd, or none that answers.\n"
        "\n"
        "  ill   a driver that does not answer, has lost its device, does not clear\n"
        "        memory, or does not take it back for long; a device that NVML wants\n"
        "        to be reset or replaced; a gpumemd that is ending\n"
        "  note  worth a look, and yet 0: errors of a device that works; no NVML; memory\n"
        "        that lingers for long with a process, which may still map it\n"
        "\n"
        "  --strict             1 with a note, too\n"
        "  --lingering SECONDS  what is long; default: 60\n"
        "  --json               for programs\n"
        "  --timeout SECONDS    for a gpumemd that says nothing; default: 10. Less than\n"
        "                       the probe's own is right\n"
        "  --socket, --wait     as in gpumemctl --help\n"
        "Only root and gpumemd's user see how long other tenants' memory lingers.\n";

enum { HEALTH_STRICT = OPTION_OWN, HEALTH_LINGERING };

struct health {
        bool is_strict;
        bool has_lingering;
        uint64_t lingering_s;
};

/* What was found, and by asking what. */
struct examined {
        struct pool_stats pool_stats;
        struct findings findings;
};

static void examined_deinit(struct examined *examined)
{
        pool_stats_deinit(&examined->pool_stats);
        findings_deinit(&examined->findings);
}

static int examine(struct link *link, uint64_t lingering_ms, struct examined *examined)
{
        CLEANUP(listed_deinit)
        struct listed blocks = {.n_rows = 0};
        CLEANUP(event_rows_deinit)
        struct event_rows event_rows = {.n = 0};
        struct frame request = FRAME_NULL;
        int r;

        request.blocks.pool = PROTO_ALL_POOLS;
        r = pool_stats_fetch(link, &examined->pool_stats);
        if (!r)
                r = listing_fetch(link, &listing_blocks, &request, &blocks);
        if (!r)
                r = event_rows_fetch(link, 0, EVENT_ROWS_BIT(CANARY) | EVENT_ROWS_BIT(STOPPING),
                                     &event_rows);
        if (r)
                return r;
        for (uint32_t i = 0; i < examined->pool_stats.n; i++)
                health_check_pool(&examined->pool_stats.pools[i], &examined->pool_stats.stats[i],
                                  &examined->findings);
        health_check_blocks((const void *)blocks.rows, blocks.n_rows, lingering_ms,
                            &examined->findings);
        health_check_events(event_rows.rows, event_rows.n, &examined->findings);
        return examined->findings.is_short_of_memory ? -ENOMEM : 0;
}

static const char *level_name(enum finding_level level)
{
        return level == FINDING_ILL ? "ill" : "note";
}

static const char *pool_name(const struct pool_stats *pool_stats, uint32_t pool)
{
        for (uint32_t i = 0; i < pool_stats->n; i++) {
                if (pool_stats->pools[i].id == pool)
                        return pool_stats->pools[i].name;
        }
        return "unknown";
}

static void print_finding(const struct pool_stats *pool_stats, const struct finding *finding)
{
        if (finding->pool == LISTING_NOBODY)
                (void)printf("%s: %s\n", level_name(finding->level), finding->text);
        else
                (void)printf("%s: pool %u (%s): %s\n", level_name(finding->level), finding->pool,
                             pool_name(pool_stats, finding->pool), finding->text);
}

static int print_lines(const struct examined *examined, unsigned n_ill)
{
        const char *pools = examined->pool_stats.n == 1 ? "pool" : "pools";
        bool is_daemon_ill = findings_has_daemon(&examined->findings);

        for (unsigned i = 0; i < examined->findings.n; i++)
                print_finding(&examined->pool_stats, &examined->findings.findings[i]);
        if (n_ill)
                (void)printf("ill: %u of %u %s\n", n_ill, examined->pool_stats.n, pools);
        else if (!is_daemon_ill)
                (void)printf("well: %u %s\n", examined->pool_stats.n, pools);
        return n_ill || is_daemon_ill ? STATUS_FAILURE : STATUS_OK;
}

/* null: of the daemon itself. */
static json_t *pool_to_json(uint32_t pool)
{
        return pool == LISTING_NOBODY ? json_null() : json_integer(pool);
}

static json_t *findings_to_json(const struct findings *findings)
{
        json_t *array = json_array();

        for (unsigned i = 0; i < findings->n; i++) {
                const struct finding *finding = &findings->findings[i];

                (void)json_array_append_new(array, json_pack("{s:s, s:o, s:s, s:s}", "judged",
                                                             level_name(finding->level), "pool",
                                                             pool_to_json(finding->pool), "what",
                                                             finding->what, "text", finding->text));
        }
        return array;
}

static int print_json(bool well, const char *daemon, json_t *take_findings, int status)
{
        int printed = print_json_value(json_pack("{s:b, s:s, s:o}", "well", well, "daemon", daemon,
                                                 "findings", take_findings));

        return printed == STATUS_OK ? status : printed;
}

/* No connection, or an answer that did not come. */
static int report_unwell(struct link *link, const char *what, int result, enum output output)
{
        int status = link ? report_refusal(link, what, result) : report_failure(what, result);

        if (output == OUTPUT_JSON)
                return print_json(false, status == STATUS_NO_DAEMON ? "away" : "fails",
                                  json_array(), status);
        return status;
}

static int run_linked(struct link *link, const struct arguments *arguments)
{
        const struct health *health = arguments->own;
        uint64_t lingering_s = health->has_lingering ? health->lingering_s : LINGERING_S;
        CLEANUP(examined_deinit)
        struct examined examined = {.pool_stats = {.n = 0}};
        int r = examine(link, lingering_s * 1000, &examined);
        unsigned n_ill;
        bool is_well;

        if (r)
                return report_unwell(link, "health", r, arguments->output);
        n_ill = findings_count_pools(&examined.findings,
                                     health->is_strict ? FINDING_NOTE : FINDING_ILL);
        is_well = !n_ill && !findings_has_daemon(&examined.findings);
        if (arguments->output == OUTPUT_JSON)
                return print_json(is_well, "answers", findings_to_json(&examined.findings),
                                  is_well ? STATUS_OK : STATUS_FAILURE);
        return print_lines(&examined, n_ill);
}

static int run(struct link *none, const struct arguments *arguments)
{
        struct link *link;
        int r, status;

        (void)none;
        r = connect_to_daemon(arguments, &link);
        if (r)
                return report_unwell(NULL, "no connection to gpumemd", r, arguments->output);
        status = run_linked(link, arguments);
        link_free(link);
        return status;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct health *health = arguments->own;

        if (id == HEALTH_STRICT) {
                health->is_strict = true;
                return 0;
        }
        if (parse_number(value, &health->lingering_s) || health->lingering_s > LINGERING_S_MAX)
                return parse_refuse("--lingering", value, "time", "0 to 1000000 seconds");
        health->has_lingering = true;
        return 0;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"strict", no_argument, NULL, HEALTH_STRICT},
        {"lingering", required_argument, NULL, HEALTH_LINGERING},
        COMMAND_OPTIONS_END,
};

const struct command health_command = {
        .name = "health",
        .line = "is all well? 0 yes, 1 no, 3 no daemon: for probes",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct health),
        .link = COMMAND_LINKS,
};
