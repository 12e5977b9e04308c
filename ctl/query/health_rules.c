/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/health_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/query/event_rows.h"
#include "gpumem.h"

void findings_deinit(struct findings *findings)
{
        free(findings->findings);
        *findings = (struct findings){.n = 0};
}

static PRINTF_LIKE(5, 6) void add(struct findings *findings, enum finding_level level,
                                  uint32_t pool, const char *what, const char *format, ...)
{
        struct finding *all, *finding;
        va_list arguments;

        all = reallocarray(findings->findings, findings->n + 1, sizeof(*all));
        if (!all) {
                findings->is_short_of_memory = 1;
                return;
        }
        findings->findings = all;
        finding = &all[findings->n++];
        *finding = (struct finding){.level = level, .pool = pool, .what = what};
        va_start(arguments, format);
        (void)vsnprintf(finding->text, sizeof(finding->text), format, arguments);
        va_end(arguments);
}

static void judge_driver(const struct pool_row *pool, const struct stats_row *stats,
                         struct findings *findings)
{
        uint64_t s = stats->driver_for / 1000;

        if (stats->driver == PROTO_DRIVER_STALLED)
                add(findings, FINDING_UNHEALTHY, pool->id, "driver_stalled",
                    "its driver has not answered for %" PRIu64 " s", s);
        else if (stats->driver == PROTO_DRIVER_LOST)
                add(findings, FINDING_UNHEALTHY, pool->id, "driver_lost",
                    "its driver has lost the device, %" PRIu64 " s ago", s);
        else if (stats->driver != PROTO_DRIVER_ANSWERS)
                add(findings, FINDING_UNHEALTHY, pool->id, "driver_unknown",
                    "its driver is in a state that this gpumemctl does not know");
}

static void judge_device(const struct pool_row *pool, const struct stats_row *stats,
                         struct findings *findings)
{
        static const struct {
                enum finding_level level;
                const char *what, *text;
        } states[] = {
                [PROTO_DEVICE_UNKNOWN] = {FINDING_NOTE, "device_unknown",
                                          "NVML does not say how the device is"},
                [PROTO_DEVICE_WELL] = {FINDING_NOTE, NULL, NULL},
                [PROTO_DEVICE_WORN] = {FINDING_UNHEALTHY, "device_worn",
                                       "NVML says: to be drained and reset, or replaced"},
                [PROTO_DEVICE_NEEDS_RESET] = {FINDING_UNHEALTHY, "device_needs_reset",
                                              "NVML says: the device needs a reset"},
                [PROTO_DEVICE_NEEDS_REBOOT] = {FINDING_UNHEALTHY, "device_needs_reboot",
                                               "NVML says: the device needs a reboot"},
                [PROTO_DEVICE_LOST] = {FINDING_UNHEALTHY, "device_lost",
                                       "NVML says: the device is lost"},
        };

        if (stats->device >= ARRAY_SIZE(states))
                add(findings, FINDING_UNHEALTHY, pool->id, "device_unknown",
                    "the device is in a state that this gpumemctl does not know");
        else if (states[stats->device].what)
                add(findings, states[stats->device].level, pool->id, states[stats->device].what,
                    "%s", states[stats->device].text);
}

static void judge_errors(const struct pool_row *pool, const struct stats_row *stats,
                         struct findings *findings)
{
        if (stats->device_uncorrected && stats->device_uncorrected != PROTO_FIGURE_UNKNOWN)
                add(findings, FINDING_NOTE, pool->id, "uncorrected_errors",
                    "uncorrected errors of its memory since its driver was loaded: %" PRIu64,
                    stats->device_uncorrected);
        if (stats->device_xids && stats->device_xids != PROTO_FIGURE_UNKNOWN)
                add(findings, FINDING_NOTE, pool->id, "xids",
                    "errors that NVML has told of (XIDs) since gpumemd started: %" PRIu64
                    ", the last one: %" PRIu64,
                    stats->device_xids, stats->device_last_xid);
}

void health_check_pool(const struct pool_row *pool, const struct stats_row *stats,
                       struct findings *findings)
{
        judge_driver(pool, stats, findings);
        if (pool->kind != GPUMEM_DEVICE)
                return;
        judge_device(pool, stats, findings);
        judge_errors(pool, stats, findings);
}

struct lingering {
        uint64_t n_bytes, n, oldest_ms;
};

static void add_lingering(struct lingering *lingering, const struct block_row *block)
{
        lingering->n++;
        lingering->n_bytes += block->bytes;
        if (block->state_age > lingering->oldest_ms)
                lingering->oldest_ms = block->state_age;
}

/* Memory that a process may still map is a note only: no user's program may make a node unhealthy. */
static void judge_lingering(const struct lingering *mapped, const struct lingering *stuck,
                            uint32_t pool, struct findings *findings)
{
        char text[SIZE_TEXT_MAX];

        if (stuck->n)
                add(findings, FINDING_UNHEALTHY, pool, "stuck",
                    "its driver does not take back %s in %" PRIu64 " %s, for up to %" PRIu64 " s",
                    size_format(stuck->n_bytes, text), stuck->n, stuck->n == 1 ? "block" : "blocks",
                    stuck->oldest_ms / 1000);
        if (mapped->n)
                add(findings, FINDING_NOTE, pool, "lingering",
                    "%s in %" PRIu64 " %s linger with processes, for up to %" PRIu64
                    " s: gpumemctl leaks",
                    size_format(mapped->n_bytes, text), mapped->n,
                    mapped->n == 1 ? "block" : "blocks", mapped->oldest_ms / 1000);
}

/* One finding a pool of each sort, so that it is one line however many blocks linger. */
static void judge_pools_blocks(const struct block_row *blocks, uint32_t n_blocks, uint32_t first,
                               uint64_t lingering_ms, struct findings *findings)
{
        struct lingering mapped = {.n = 0}, stuck = {.n = 0};

        for (uint32_t i = first; i < n_blocks; i++) {
                const struct block_row *block = &blocks[i];

                if (block->pool != blocks[first].pool || block->state != LISTED_LINGERING ||
                    block->state_age < lingering_ms || block->state_age == LISTING_UNTOLD)
                        continue;
                add_lingering(block->lease ? &mapped : &stuck, block);
        }
        judge_lingering(&mapped, &stuck, blocks[first].pool, findings);
}

void health_check_blocks(const struct block_row *blocks, uint32_t n_blocks, uint64_t lingering_ms,
                         struct findings *findings)
{
        unsigned char seen[PROTO_POOLS_MAX] = {0};

        for (uint32_t i = 0; i < n_blocks; i++) {
                if (blocks[i].pool >= PROTO_POOLS_MAX || seen[blocks[i].pool])
                        continue;
                seen[blocks[i].pool] = 1;
                judge_pools_blocks(blocks, n_blocks, i, lingering_ms, findings);
        }
}

static void judge_stopping(struct findings *findings)
{
        if (!findings_has_daemon(findings))
                add(findings, FINDING_UNHEALTHY, LISTING_NOBODY, "ending", EVENT_ROWS_END);
}

void health_check_events(const struct event_row *events, uint32_t n_events,
                         struct findings *findings)
{
        unsigned char seen[PROTO_POOLS_MAX] = {0};

        for (uint32_t i = 0; i < n_events; i++) {
                if (events[i].what == LISTED_EVENT_STOPPING)
                        judge_stopping(findings);
                if (events[i].what != LISTED_EVENT_CANARY || events[i].pool >= PROTO_POOLS_MAX ||
                    seen[events[i].pool])
                        continue;
                seen[events[i].pool] = 1;
                add(findings, FINDING_UNHEALTHY, events[i].pool, "memory_not_cleared",
                    "its driver does not clear memory between owners: one tenant only is served");
        }
}

static bool is_before(const struct findings *findings, unsigned n, enum finding_level least)
{
        for (unsigned i = 0; i < n; i++) {
                if (findings->findings[i].level >= least &&
                    findings->findings[i].pool == findings->findings[n].pool)
                        return true;
        }
        return false;
}

unsigned findings_count_pools(const struct findings *findings, enum finding_level least)
{
        unsigned n = 0;

        for (unsigned i = 0; i < findings->n; i++)
                n += findings->findings[i].level >= least &&
                     findings->findings[i].pool != LISTING_NOBODY && !is_before(findings, i, least);
        return n;
}

bool findings_has_daemon(const struct findings *findings)
{
        for (unsigned i = 0; i < findings->n; i++) {
                if (findings->findings[i].pool == LISTING_NOBODY)
                        return true;
        }
        return false;
}
