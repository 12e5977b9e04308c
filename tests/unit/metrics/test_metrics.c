/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as text for Prometheus. */
#include "metrics/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/listen.h"
#include "metrics/pool_sample.h"
#include "tests/suite.h"
#include "tests/unit/metrics/metrics_world.h"

#define GPU_0 "pool=\"0\",kind=\"device\",gpu_uuid=\"GPU-01ab0000-0000-0000-0000-000000000000\""

static struct metrics_figures figures;
static char *text; /* of the figures, as rendered last */

static void end(void)
{
        free(text);
        metrics_deinit(&figures);
}

static void render(enum metrics_format format)
{
        size_t n_bytes;

        free(text);
        ck_assert_int_eq(metrics_render(&figures, format, &text, &n_bytes), 0);
        ck_assert_uint_eq(strlen(text), n_bytes);
}

static void expect_line(const char *line)
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

static unsigned count(const char *part)
{
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
                n++;
        return n;
}

TEST(every_figure_has_a_name_and_a_unit)
{
        figures_make(&figures, 0);
        render(METRICS_OPENMETRICS);
        expect_line("gpumemd_up 1");
        expect_line("gpumemd_answer_seconds 0.001500000");
        expect_line("# UNIT gpumemd_pool_reserved_bytes bytes");
        expect_line("gpumemd_pool_reserved_bytes{" GPU_0 "} 10");
        expect_line("gpumemd_pool_reserved_bytes{pool=\"2\",kind=\"pinned\",numa_node=\"0\"} 30");
        expect_line("gpumemd_driver_for_seconds{" GPU_0 "} 12.034");
        expect_line("# UNIT gpumemd_pool_fragmentation_ratio ratio");
        expect_line("gpumemd_pool_fragmentation_ratio{" GPU_0 "} 0.250");
        expect_line("gpumemd_pool_info{" GPU_0 ",gpu=\"0\",name=\"pool 0\"} 1");
        expect_line("gpumemd_clients{state=\"others\"} 40");
        expect_line("gpumemd_clients{state=\"left\"} 0");
#define STAT(field, unit, text_of_list) ck_assert_uint_ge(count("_" #field), 1);
#include "proto/stats.def"
#undef STAT
        ck_assert_ptr_null(strstr(text, "gpumemd_tenant"));
        ck_assert_ptr_null(strstr(text, "gpumemd_exporter"));
}

/* Of the daemon, and so once; an older one does not tell them. */
TEST(an_instance_is_called_as_nvml_calls_it)
{
        struct pool_row pool = {.uuid = {1, 0xab}, .name = "NVIDIA H200 MIG 1g.18gb"};
        char uuid[UUID_TEXT_MAX];

        pool_uuid(&pool, uuid);
        ck_assert_str_eq(uuid, "MIG-01ab0000-0000-0000-0000-000000000000");
}

TEST(the_loop_has_its_figures)
{
        figures_make(&figures, 0);
        render(METRICS_OPENMETRICS);
        expect_line("gpumemd_loop_steps_total 12345");
        expect_line("gpumemd_loop_late_steps_total 2");
        expect_line("gpumemd_loop_late_after_seconds 0.000100000");
        expect_line("gpumemd_loop_longest_step_seconds 0.000123456");
        expect_line("# UNIT gpumemd_loop_busy_seconds seconds");
        expect_line("gpumemd_loop_busy_seconds_total 5.000000001");
        expect_line("gpumemd_loop_age_seconds 90.000000000");
#define LOOP(field, unit, text_of_list) ck_assert_uint_ge(count("gpumemd_loop_" #field), 1);
#include "proto/loop.def"
#undef LOOP
        figures.has_loop = false;
        render(METRICS_OPENMETRICS);
        ck_assert_ptr_null(strstr(text, "gpumemd_loop"));
}

TEST(a_state_is_one_of_all)
{
        figures_make(&figures, 0);
        render(METRICS_TEXT);
        expect_line("gpumemd_driver_state{" GPU_0 ",state=\"answers\"} 0");
        expect_line("gpumemd_driver_state{" GPU_0 ",state=\"stalled\"} 1");
        expect_line("gpumemd_device_state{" GPU_0 ",state=\"well\"} 1");
        expect_line("gpumemd_device_state{" GPU_0 ",state=\"lost\"} 0");
        ck_assert_uint_eq(count("\ngpumemd_device_state{"), 12);
}

/* Nor what a pinned pool does not have. */
TEST(what_is_unknown_is_left_out)
{
        figures_make(&figures, 0);
        render(METRICS_TEXT);
        ck_assert_uint_eq(count("\ngpumemd_device_free_bytes{"), 2);
        ck_assert_uint_eq(count("\ngpumemd_device_others_bytes{"), 1);
        ck_assert_uint_eq(count("\ngpumemd_driver_for_seconds{"), 2);
}

TEST(the_formats_differ_in_what_announces_a_counter)
{
        figures_make(&figures, 0);
        render(METRICS_OPENMETRICS);
        expect_line("# TYPE gpumemd_pool_refusals counter");
        expect_line("gpumemd_pool_refusals_total{" GPU_0 "} 7");
        ck_assert_str_eq(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
        render(METRICS_TEXT);
        expect_line("# TYPE gpumemd_pool_refusals_total counter");
        expect_line("gpumemd_pool_refusals_total{" GPU_0 "} 7");
        ck_assert_ptr_null(strstr(text, "# UNIT"));
}

TEST(without_a_daemon_there_is_what_the_exporter_counts)
{
        static struct metrics_exporter exporter = {.version = "9", .n_scrapes = 4, .n_failures = 2};

        figures.exporter = &exporter;
        render(METRICS_TEXT);
        expect_line("gpumemd_up 0");
        expect_line("gpumemd_exporter_build_info{version=\"9\"} 1");
        expect_line("gpumemd_exporter_scrapes_total 4");
        expect_line("gpumemd_exporter_failures_total 2");
        ck_assert_ptr_null(strstr(text, "gpumemd_pool"));
}

/* Each line is a comment of our own, or a sample whose label values end where they should. */
static void expect_sound(void)
{
        for (const char *line = text; *line;) {
                size_t n = strcspn(line, "\n");
                bool is_quoted = false;

                ck_assert_int_eq(line[n], '\n');
                ck_assert(line[0] == '#' || strncmp(line, "gpumemd_", 8) == 0);
                for (size_t i = 0; i < n && line[0] != '#'; i++) {
                        ck_assert_int_ge(line[i], ' ');
                        ck_assert_int_le(line[i], '~');
                        if (is_quoted && line[i] == '\\')
                                i++;
                        else if (line[i] == '"')
                                is_quoted = !is_quoted;
                }
                ck_assert(!is_quoted);
                line += n + 1;
        }
}

TEST(whatever_a_name_is_it_stays_in_its_label)
{
        figures_make_hostile(&figures);
        for (unsigned format = METRICS_OPENMETRICS; format <= METRICS_TEXT; format++) {
                render((enum metrics_format)format);
                expect_sound();
                expect_line("gpumemd_pool_info{" GPU_0 ",gpu=\"0\",name=\"a\\\"} 1\\n# EOF\\n"
                            "evil{x=\\\"\\\\??_??\"} 1");
                ck_assert_uint_eq(count("\n# EOF\n"), 1);
        }
}

TEST(tenants_whose_labels_are_the_same_are_one)
{
        char line[200];

        figures_make_hostile(&figures);
        render(METRICS_TEXT);
        (void)snprintf(line, sizeof(line),
                       "gpumemd_tenant_reserved_bytes{" GPU_0
                       ",uid=\"5\",container=\"c?\"} %" PRIu64,
                       UINT64_MAX);
        expect_line(line);
        expect_line("gpumemd_tenant_waiting{" GPU_0 ",uid=\"5\",container=\"c?\"} 4");
        ck_assert_uint_eq(count("\ngpumemd_tenant_waiting{"), 2);
}

TEST(beyond_so_many_tenants_the_smallest_are_others)
{
        figures_make(&figures, METRICS_TENANT_ROWS_MAX + 10);
        figures.tenants[0].uid = LISTING_NOBODY;
        figures.tenants[0].reserved = 5000;
        render(METRICS_TEXT);
        ck_assert_uint_eq(count("\ngpumemd_tenant_reserved_bytes{"), METRICS_TENANT_ROWS_MAX - 2);
        /* The rest of 1010: the sum that others are already, and those of 101 to 112 bytes. */
        expect_line("gpumemd_tenant_reserved_bytes{" GPU_0 ",uid=\"others\",container=\"\"} 6278");
        expect_line("gpumemd_tenant_waiting{" GPU_0 ",uid=\"others\",container=\"\"} 13");
        expect_line("gpumemd_tenant_reserved_bytes{" GPU_0 ",uid=\"1013\",container=\"\"} 113");
        ck_assert_uint_eq(count("\ngpumemd_tenant_reserved_peak_bytes{"),
                          METRICS_TENANT_ROWS_MAX - 3);
}

TEST(the_others_of_each_pool_have_room)
{
        figures_make(&figures, METRICS_TENANT_ROWS_MAX + 10);
        for (uint32_t i = 0; i < figures.n_tenants; i++)
                figures.tenants[i].pool = i % figures.n_pools;
        render(METRICS_TEXT);
        ck_assert_uint_eq(count("\ngpumemd_tenant_reserved_bytes{"), METRICS_TENANT_ROWS_MAX);
        ck_assert_uint_eq(count("uid=\"others\""), 10 * figures.n_pools);
}

/* gpumemd does not tell any. */
TEST(others_have_no_peak)
{
        figures_make(&figures, 2);
        figures.tenants[0].uid = LISTING_NOBODY;
        figures.tenants[0].reserved_peak = LISTING_UNTOLD;
        render(METRICS_TEXT);
        expect_line("gpumemd_tenant_reserved_bytes{" GPU_0 ",uid=\"others\",container=\"\"} 100");
        ck_assert_uint_eq(count("\ngpumemd_tenant_reserved_peak_bytes{"), 1);
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
        char formatted[LISTEN_TEXT_MAX];

        for (unsigned i = 0; i < ARRAY_SIZE(good); i++) {
                ck_assert_int_eq(listen_parse(good[i], &address), 0);
                ck_assert_str_eq(listen_format(&address, formatted), good[i]);
        }
        for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
                ck_assert_msg(listen_parse(bad[i], &address) == -EINVAL, "\"%s\"", bad[i]);
}

TESTS_MAIN("metrics", .stop = end)
