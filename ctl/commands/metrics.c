/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl metrics: the daemon's figures for Prometheus, once. */
#include <string.h>

#include "base/err.h"
#include "ctl/core/command.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/atomic_file.h"
#include "ctl/output/parse.h"
#include "metrics/ask.h"
#include "metrics/metrics.h"

static const char help[] =
        "Usage: gpumemctl metrics [OPTION]...\n"
        "Prints statistics of all pools for Prometheus, once, or writes them to a file\n"
        "for node_exporter's textfile collector. gpumemd-exporter serves them.\n"
        "If gpumemd cannot be reached it prints gpumemd_up 0; the exit status is 3.\n"
        "\n"
        "  --format FORMAT  openmetrics, or text: Prometheus's older format, which\n"
        "                   node_exporter and promtool read; default: openmetrics\n"
        "  --output FILE    replaces FILE atomically; its mode is 0644\n"
        "  --tenants        for each tenant too, by uid and container, 1000 rows at most;\n"
        "                   only root and gpumemd's user see all tenants\n"
        "  --socket, --wait, --timeout  as in gpumemctl --help\n";

enum {
        METRICS_OPTION_FORMAT = OPTION_OWN,
        METRICS_OPTION_OUTPUT,
        METRICS_OPTION_TENANTS,
};

struct own {
        enum metrics_format format;
        const char *path;
        bool with_tenants;
};

static int put(const struct own *own, const struct metrics_figures *figures)
{
        CLEANUP(freep)
        char *text = NULL;
        size_t n_bytes;
        int r = metrics_render(figures, own->format, &text, &n_bytes);

        if (!r && own->path)
                r = atomic_file_write(own->path, text, n_bytes);
        else if (!r && fwrite(text, 1, n_bytes, stdout) != n_bytes)
                r = -ENOMEM;
        if (r == -EEXIST)
                (void)fprintf(stderr,
                              "gpumemctl: --output: %s is not a regular file; it was not changed\n",
                              own->path);
        else if (r && own->path)
                (void)fprintf(stderr, "gpumemctl: --output: %s: %s\n", own->path, strerror(-r));
        else if (r)
                (void)fprintf(stderr, "gpumemctl: metrics: %s\n", strerror(-r));
        return r ? STATUS_FAILURE : STATUS_OK;
}

/* Without a daemon that is the metric. */
static int put_without_daemon(struct link *link, const struct own *own, int result)
{
        const struct metrics_figures figures = METRICS_FIGURES_NULL;
        int status = link ? report_refusal(link, "metrics", result) : report_unreachable(result);

        (void)put(own, &figures);
        return status;
}

static int run(struct link *none, const struct arguments *arguments)
{
        const struct own *own = arguments->own;
        CLEANUP(metrics_deinit)
        struct metrics_figures figures = METRICS_FIGURES_NULL;
        struct link *link;
        int r, status;

        (void)none;
        r = connect_to_daemon(arguments, &link);
        if (r)
                return put_without_daemon(NULL, own, r);
        r = ask_figures(link, own->with_tenants, &figures);
        status = r ? put_without_daemon(link, own, r) : put(own, &figures);
        link_free(link);
        return status;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct own *own = arguments->own;

        if (id == METRICS_OPTION_OUTPUT)
                return parse_file("--output", value, &own->path);
        if (id == METRICS_OPTION_TENANTS)
                own->with_tenants = true;
        else if (strcmp(value, "openmetrics") == 0)
                own->format = METRICS_OPENMETRICS;
        else if (strcmp(value, "text") == 0)
                own->format = METRICS_TEXT;
        else
                return parse_refuse("--format", value, "openmetrics, text");
        return 0;
}

static const struct option options[] = {
        {"format", required_argument, NULL, METRICS_OPTION_FORMAT},
        {"output", required_argument, NULL, METRICS_OPTION_OUTPUT},
        {"tenants", no_argument, NULL, METRICS_OPTION_TENANTS},
        COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"format", "openmetrics text", NULL},
        {"output", "@file", NULL},
        COMMAND_VALUES_END,
};

const struct command metrics_command = {
        .name = "metrics",
        .line = "statistics for Prometheus, once; gpumemd-exporter serves them",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct own),
        .link = COMMAND_LINKS,
};
