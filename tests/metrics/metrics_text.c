/* SPDX-License-Identifier: Apache-2.0 */
/* metrics-text openmetrics|text: hostile figures as metrics, for Prometheus's own tools to read.
 * metrics-text all: of each metric that there is at least one sample, as OpenMetrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/metrics/metrics_world.h"

int main(int argc, char **argv)
{
        static const struct metrics_exporter exporter = {.version = "0"};
        struct metrics_figures figures;
        bool is_text = argc == 2 && strcmp(argv[1], "text") == 0;
        bool is_all = argc == 2 && strcmp(argv[1], "all") == 0;
        size_t n_bytes;
        char *text;

        if (is_all)
                figures_make_all(&figures);
        else
                figures_make_hostile(&figures);
        figures.exporter = &exporter;
        if (metrics_render(&figures, is_text ? METRICS_TEXT : METRICS_OPENMETRICS, &text, &n_bytes))
                return EXIT_FAILURE;
        (void)fwrite(text, 1, n_bytes, stdout);
        free(text);
        metrics_deinit(&figures);
        return EXIT_SUCCESS;
}
