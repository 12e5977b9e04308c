/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl health: are gpumemd and its devices healthy? For probes by the exit status, for people in lines. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "client/runtime/last_error.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/node_health.h"
#include "gpumem.h"

#define LINGERING_S_MAX 1000000

static const char help[] =
        "Usage: gpumemctl health [OPTION]...\n"
        "Checks gpumemd and its devices; prints a line for each finding. Exit status for\n"
        "probes: 0 healthy, 1 unhealthy, 3 gpumemd cannot be reached.\n"
        "\n"
        "  unhealthy  a driver that does not answer, has lost its device, does not clear\n"
        "             memory, or does not take memory back for long; a device that NVML\n"
        "             wants reset or replaced; a gpumemd that is shutting down\n"
        "  note       worth a look, exit status 0: errors of a device that works; no\n"
        "             NVML; memory that lingers for long with a process\n"
        "\n"
        "  --strict             exit with 1 for a note, too\n"
        "  --lingering SECONDS  how long is long; default: 60\n"
        "  --json               for programs\n"
        "  --timeout SECONDS    for a gpumemd that does not answer; default: 10. Set it\n"
        "                       lower than the probe's own timeout\n"
        "  --socket, --wait     as in gpumemctl --help\n"
        "Only root and gpumemd's user see how long other tenants' memory lingers.\n";

enum { HEALTH_STRICT = OPTION_OWN, HEALTH_LINGERING };

struct health {
        bool is_strict;
        bool has_lingering;
        uint64_t lingering_s;
};

static int print_lines(const struct node_health *health, unsigned n_unhealthy)
{
        const struct findings *findings = &health->findings;
        uint32_t n_pools = health->node.pool_stats.n;
        const char *pools = n_pools == 1 ? "pool" : "pools";
        bool is_daemon_unhealthy = findings_has_daemon(findings);

        for (unsigned i = 0; i < findings->n; i++)
                node_health_print(health, &findings->findings[i]);
        if (n_unhealthy)
                (void)printf("unhealthy: %u of %u %s\n", n_unhealthy, n_pools, pools);
        else if (!is_daemon_unhealthy)
                (void)printf("healthy: %u %s\n", n_pools, pools);
        return n_unhealthy || is_daemon_unhealthy ? STATUS_FAILURE : STATUS_OK;
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

                (void)json_array_append_new(array,
                                            json_pack("{s:s, s:o, s:s, s:s}", "level",
                                                      finding_level_name(finding->level), "pool",
                                                      pool_to_json(finding->pool), "what",
                                                      finding->what, "text", finding->text));
        }
        return array;
}

static int print_json(bool is_healthy, const char *daemon, json_t *take_findings, int status)
{
        int printed = print_json_value(json_pack("{s:b, s:s, s:o}", "healthy", is_healthy, "daemon",
                                                 daemon, "findings", take_findings));

        return printed == STATUS_OK ? status : printed;
}

/* Without a link there is no connection. Probes need no advice. */
static int report_no_answer(struct link *link, int result, enum output output)
{
        int status = link ? report_refusal(link, "health", result) : report_unreachable(result);

        if (output == OUTPUT_JSON)
                return print_json(false, status == STATUS_NO_DAEMON ? "away" : "fails",
                                  json_array(), status);
        return status;
}

static int run_linked(struct link *link, const struct arguments *arguments)
{
        const struct health *own = arguments->own;
        uint64_t lingering_s = own->has_lingering ? own->lingering_s : NODE_HEALTH_LINGERING_S;
        CLEANUP(node_health_deinit)
        struct node_health health = NODE_HEALTH_NULL;
        int r = node_health_fetch(link, lingering_s * 1000, &health);
        unsigned n_unhealthy;
        bool is_healthy;

        if (r)
                return report_no_answer(link, r, arguments->output);
        n_unhealthy = findings_count_pools(&health.findings,
                                           own->is_strict ? FINDING_NOTE : FINDING_UNHEALTHY);
        is_healthy = !n_unhealthy && !findings_has_daemon(&health.findings);
        if (arguments->output == OUTPUT_JSON)
                return print_json(is_healthy, "answers", findings_to_json(&health.findings),
                                  is_healthy ? STATUS_OK : STATUS_FAILURE);
        return print_lines(&health, n_unhealthy);
}

static int run(struct link *none, const struct arguments *arguments)
{
        struct link *link;
        int r, status;

        (void)none;
        r = connect_to_daemon(arguments, &link);
        if (r)
                return report_no_answer(NULL, r, arguments->output);
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
                return parse_refuse("--lingering", value, "0-1000000 seconds");
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
        .line = "for probes: exit 0 healthy, 1 unhealthy, 3 unreachable",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct health),
        .link = COMMAND_LINKS,
};
