/* metrics-text [openmetrics|text]: hostile figures as metrics, for Prometheus's own tools to read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/metrics_world.h"

int main(int argc, char **argv)
{
        struct metrics_figures figures;
        bool is_text = argc == 2 && strcmp(argv[1], "text") == 0;
        size_t n_bytes;
        char *text;

        figures_make_hostile(&figures);
        if (metrics_render(&figures, is_text ? METRICS_TEXT : METRICS_OPENMETRICS, &text, &n_bytes))
                return EXIT_FAILURE;
        (void)fwrite(text, 1, n_bytes, stdout);
        free(text);
        metrics_deinit(&figures);
        return EXIT_SUCCESS;
}
