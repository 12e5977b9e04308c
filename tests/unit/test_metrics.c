/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text for Prometheus. */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/listen.h"
#include "tests/suite.h"
#include "tests/unit/metrics_world.h"

#define GPU_0 "pool=\"0\",kind=\"device\",gpu_uuid=\"GPU-01ab0000-0000-0000-0000-000000000000\""

static char *render(const struct metrics_figures *figures, enum metrics_format format)
{
        size_t n_bytes;
        char *text;

        ck_assert_int_eq(metrics_render(figures, format, &text, &n_bytes), 0);
        ck_assert_uint_eq(strlen(text), n_bytes);
        return text;
}

static void expect_line(const char *text, const char *line)
{
        const char *found = text;
        size_t n = strlen(line);

        while ((found = strstr(found, line))) {
                if ((found == text || found[-1] == '\n') && found[n] == '\n')
                        return;
                found++;
        }
        ck_abort_msg("no line \"%s\" in:\n%s", line, text);
}

static unsigned count(const char *text, const char *part)
{
        unsigned n = 0;

        while ((text = strstr(text, part))) {
                text += strlen(part);
                n++;
        }
        return n;
}

TEST(every_figure_has_a_name_and_a_unit)
{
        struct metrics_figures figures;
        char *text;

        figures_make(&figures, 0);
        text = render(&figures, METRICS_OPENMETRICS);
        expect_line(text, "gpumemd_up 1");
        expect_line(text, "gpumemd_answer_seconds 0.001500000");
        expect_line(text, "# UNIT gpumemd_pool_reserved_bytes bytes");
        expect_line(text, "gpumemd_pool_reserved_bytes{" GPU_0 "} 10");
        expect_line(text,
                    "gpumemd_pool_reserved_bytes{pool=\"2\",kind=\"pinned\",numa_node=\"0\"} 30");
        expect_line(text, "gpumemd_driver_for_seconds{" GPU_0 "} 12.034");
        expect_line(text, "gpumemd_pool_info{" GPU_0 ",gpu=\"0\",name=\"pool 0\"} 1");
        expect_line(text, "gpumemd_clients{state=\"others\"} 40");
        expect_line(text, "gpumemd_clients{state=\"left\"} 0");
#define STAT(field, unit, text_of_list) ck_assert_uint_ge(count(text, "_" #field), 1);
#include "proto/stats.def"
#undef STAT
        ck_assert_ptr_null(strstr(text, "gpumemd_tenant"));
        ck_assert_ptr_null(strstr(text, "gpumemd_exporter"));
        free(text);
        metrics_deinit(&figures);
}

TEST(a_state_is_one_of_all)
{
        struct metrics_figures figures;
        char *text;

        figures_make(&figures, 0);
        text = render(&figures, METRICS_TEXT);
        expect_line(text, "gpumemd_driver_state{" GPU_0 ",state=\"answers\"} 0");
        expect_line(text, "gpumemd_driver_state{" GPU_0 ",state=\"stalled\"} 1");
        expect_line(text, "gpumemd_device_state{" GPU_0 ",state=\"well\"} 1");
        expect_line(text, "gpumemd_device_state{" GPU_0 ",state=\"lost\"} 0");
        ck_assert_uint_eq(count(text, "\ngpumemd_device_state{"), 12);
        free(text);
        metrics_deinit(&figures);
}

/* Nor what a pinned pool does not have. */
TEST(what_is_unknown_is_left_out)
{
        struct metrics_figures figures;
        char *text;

        figures_make(&figures, 0);
        text = render(&figures, METRICS_TEXT);
        ck_assert_uint_eq(count(text, "\ngpumemd_device_free_bytes{"), 2);
        ck_assert_uint_eq(count(text, "\ngpumemd_device_others_bytes{"), 1);
        ck_assert_uint_eq(count(text, "\ngpumemd_driver_for_seconds{"), 2);
        free(text);
        metrics_deinit(&figures);
}

TEST(the_formats_differ_in_what_announces_a_counter)
{
        struct metrics_figures figures;
        char *text;

        figures_make(&figures, 0);
        text = render(&figures, METRICS_OPENMETRICS);
        expect_line(text, "# TYPE gpumemd_pool_refusals counter");
        expect_line(text, "gpumemd_pool_refusals_total{" GPU_0 "} 7");
        ck_assert_str_eq(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
        free(text);
        text = render(&figures, METRICS_TEXT);
        expect_line(text, "# TYPE gpumemd_pool_refusals_total counter");
        expect_line(text, "gpumemd_pool_refusals_total{" GPU_0 "} 7");
        ck_assert_ptr_null(strstr(text, "# UNIT"));
        free(text);
        metrics_deinit(&figures);
}

TEST(without_a_daemon_there_is_what_the_exporter_counts)
{
        struct metrics_exporter exporter = {.version = "9", .n_scrapes = 4, .n_failures = 2};
        struct metrics_figures figures = {.exporter = &exporter};
        char *text = render(&figures, METRICS_TEXT);

        expect_line(text, "gpumemd_up 0");
        expect_line(text, "gpumemd_exporter_build_info{version=\"9\"} 1");
        expect_line(text, "gpumemd_exporter_scrapes_total 4");
        expect_line(text, "gpumemd_exporter_failures_total 2");
        ck_assert_ptr_null(strstr(text, "gpumemd_pool"));
        free(text);
}

/* Each line is a comment of our own, or a sample whose label values end where they should. */
static void expect_sound(const char *text)
{
        while (*text) {
                size_t n = strcspn(text, "\n");
                bool is_quoted = false;

                ck_assert_int_eq(text[n], '\n');
                ck_assert(text[0] == '#' || strncmp(text, "gpumemd_", 8) == 0);
                for (size_t i = 0; i < n && text[0] != '#'; i++) {
                        ck_assert_int_ge(text[i], ' ');
                        ck_assert_int_le(text[i], '~');
                        if (is_quoted && text[i] == '\\')
                                i++;
                        else if (text[i] == '"')
                                is_quoted = !is_quoted;
                }
                ck_assert(!is_quoted);
                text += n + 1;
        }
}

TEST(whatever_a_name_is_it_stays_in_its_label)
{
        struct metrics_figures figures;

        figures_make_hostile(&figures);
        for (unsigned format = METRICS_OPENMETRICS; format <= METRICS_TEXT; format++) {
                char *text = render(&figures, (enum metrics_format)format);

                expect_sound(text);
                expect_line(text, "gpumemd_pool_info{" GPU_0 ",gpu=\"0\",name=\"a\\\"} 1\\n# EOF\\n"
                                  "evil{x=\\\"\\\\??_??\"} 1");
                ck_assert_uint_eq(count(text, "\n# EOF\n"), 1);
                free(text);
        }
        metrics_deinit(&figures);
}

TEST(tenants_whose_labels_are_the_same_are_one)
{
        struct metrics_figures figures;
        char *text, line[200];

        figures_make_hostile(&figures);
        text = render(&figures, METRICS_TEXT);
        (void)snprintf(line, sizeof(line),
                       "gpumemd_tenant_reserved_bytes{" GPU_0
                       ",uid=\"5\",container=\"c?\"} %" PRIu64,
                       UINT64_MAX);
        expect_line(text, line);
        expect_line(text, "gpumemd_tenant_waiting{" GPU_0 ",uid=\"5\",container=\"c?\"} 4");
        ck_assert_uint_eq(count(text, "\ngpumemd_tenant_waiting{"), 2);
        free(text);
        metrics_deinit(&figures);
}

TEST(beyond_so_many_tenants_the_smallest_are_others)
{
        struct metrics_figures figures;
        char *text;

        figures_make(&figures, METRICS_TENANT_ROWS_MAX + 10);
        figures.tenants[0].uid = LISTING_NOBODY;
        figures.tenants[0].reserved = 5000;
        text = render(&figures, METRICS_TEXT);
        ck_assert_uint_eq(count(text, "\ngpumemd_tenant_reserved_bytes{"),
                          METRICS_TENANT_ROWS_MAX + 1);
        /* The rest of 1010: the sum that others are already, and those of 101 to 109 bytes. */
        expect_line(text,
                    "gpumemd_tenant_reserved_bytes{" GPU_0 ",uid=\"others\",container=\"\"} 5945");
        expect_line(text, "gpumemd_tenant_waiting{" GPU_0 ",uid=\"others\",container=\"\"} 10");
        expect_line(text,
                    "gpumemd_tenant_reserved_bytes{" GPU_0 ",uid=\"1010\",container=\"\"} 110");
        free(text);
        metrics_deinit(&figures);
}

TEST(an_address_has_a_text)
{
        static const char *const good[] = {"127.0.0.1:14900", "0.0.0.0:0", "[::1]:65535", "[::]:1",
                                           LISTEN_DEFAULT};
        static const char *const bad[] = {
                "",
                ":1",
                "127.0.0.1",
                "127.0.0.1:",
                "127.0.0.1:65536",
                "127.0.0.1:-1",
                "127.0.0.1: 1",
                "localhost:1",
                "::1:1",
                "[::1]",
                "[::1:1",
                "[]:1",
                "[:1",
                "1.2.3.4:1x",
                "1.2.3.4:000001",
                "[1.2.3.4]:1",
                "1.2.3.4.5:1",
                ("[11111111111111111111111111111111111111111111111111111111"
                 "11111111111111]:1")};
        struct listen_address address;
        char text[LISTEN_TEXT_MAX];

        for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
                ck_assert_int_eq(listen_parse(good[i], &address), 0);
                ck_assert_str_eq(listen_format(&address, text), good[i]);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
                ck_assert_msg(listen_parse(bad[i], &address) == -EINVAL, "\"%s\"", bad[i]);
}

TESTS_MAIN("metrics")
