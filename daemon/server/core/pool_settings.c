/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/core/pool_settings.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "gpumem.h"

bool pool_rule_names(const struct pool_rule *rule, const struct pool_row *row)
{
        bool is_device = row->kind == GPUMEM_DEVICE;

        switch (rule->selector) {
        case POOL_OF_EACH_DEVICE:
                return is_device;
        case POOL_OF_EACH_NODE:
                return !is_device;
        case POOL_OF_DEVICE:
                return is_device && rule->number == row->place;
        case POOL_OF_UUID:
                return is_device && memcmp(rule->uuid, row->uuid, sizeof(rule->uuid)) == 0;
        case POOL_OF_NODE:
                return !is_device && rule->number == row->place;
        }
        return false;
}

static bool is_general(const struct pool_rule *rule)
{
        return rule->selector == POOL_OF_EACH_DEVICE || rule->selector == POOL_OF_EACH_NODE;
}

static bool says_limit(const struct pool_rule *rule)
{
        return rule->max_bytes || rule->max_fraction > 0;
}

static bool says_min(const struct pool_rule *rule)
{
        return rule->says_min;
}

static bool says_warm(const struct pool_rule *rule)
{
        return rule->says_warm;
}

static bool says_keep(const struct pool_rule *rule)
{
        return rule->says_keep;
}

static bool says_return(const struct pool_rule *rule)
{
        return rule->says_return;
}

static bool says_free(const struct pool_rule *rule)
{
        return rule->says_free;
}

static bool says_backing(const struct pool_rule *rule)
{
        return rule->backing != PINNED_NOT_SAID;
}

static bool says_ipc(const struct pool_rule *rule)
{
        return rule->ipc != IPC_NOT_SAID;
}

/* Finds the rule of the highest precedence that sets the value asked for. */
static const struct pool_rule *find_rule(const struct settings *settings,
                                         const struct pool_row *row,
                                         bool (*says)(const struct pool_rule *rule))
{
        const struct pool_rule *found = NULL;

        for (size_t i = 0; i < settings->n_rules; i++) {
                const struct pool_rule *rule = &settings->rules[i];

                if (pool_rule_names(rule, row) && says(rule) && (!found || is_general(found)))
                        found = rule;
        }
        return found;
}

/* The value of the rule, even if it exceeds the capacity. */
static uint64_t by_rule(const struct pool_rule *rule, uint64_t n_capacity_bytes)
{
        uint64_t n_bytes = n_capacity_bytes;

        if (rule->max_fraction <= 0)
                return rule->max_bytes;
        if (rule->max_fraction < 1)
                n_bytes = (uint64_t)((double)n_capacity_bytes * rule->max_fraction);
        return rule->max_bytes && rule->max_bytes < n_bytes ? rule->max_bytes : n_bytes;
}

/* Rounds to whole blocks, at least one, at most the capacity. A warning tells the administrator of another
 * value. */
static uint64_t fit(const struct pool_row *row, uint64_t n_bytes)
{
        char asked[SIZE_TEXT_MAX], instead[SIZE_TEXT_MAX];

        if (n_bytes > row->n_capacity_bytes) {
                log_warning("%s: the maximum of %s exceeds the memory that exists; using %s",
                            row->name, size_format(n_bytes, asked),
                            size_format(row->n_capacity_bytes, instead));
                n_bytes = row->n_capacity_bytes;
        }
        if (n_bytes < SETTINGS_POOL_BYTES_MIN) {
                log_warning("%s: the maximum of %s is less than one block; using %s", row->name,
                            size_format(n_bytes, asked),
                            size_format(SETTINGS_POOL_BYTES_MIN, instead));
                n_bytes = SETTINGS_POOL_BYTES_MIN;
        }
        return n_bytes & ~(SETTINGS_POOL_BYTES_MIN - 1);
}

uint64_t pool_settings_max(const struct settings *settings, const struct pool_row *row)
{
        bool is_device = row->kind == GPUMEM_DEVICE;
        uint64_t n_said = is_device ? settings->n_device_bytes : settings->n_pinned_bytes;
        const struct pool_rule *rule = find_rule(settings, row, says_limit);
        uint64_t n_bytes;

        if (n_said)
                n_bytes = n_said;
        else if (rule)
                n_bytes = by_rule(rule, row->n_capacity_bytes);
        else
                n_bytes = is_device ? row->n_capacity_bytes : row->n_capacity_bytes / 4;
        return fit(row, n_bytes);
}

uint64_t pool_settings_min(const struct settings *settings, const struct pool_row *row)
{
        const struct pool_rule *rule = find_rule(settings, row, says_min);

        return rule ? rule->min_bytes : 0;
}

struct pool_stock pool_settings_stock(const struct settings *settings, const struct pool_row *row)
{
        const struct pool_rule *warm = find_rule(settings, row, says_warm);
        const struct pool_rule *keep = find_rule(settings, row, says_keep);
        const struct pool_rule *back = find_rule(settings, row, says_return);
        const struct pool_rule *room = find_rule(settings, row, says_free);
        struct pool_stock stock = {.return_after_ns = SETTINGS_RETURN_SECONDS * NS_PER_S};

        if (warm)
                stock.warm_bytes = stock.keep_bytes = warm->warm_bytes;
        if (keep)
                stock.keep_bytes = keep->keep_bytes;
        if (back)
                stock.return_after_ns = back->return_seconds * NS_PER_S;
        if (room)
                stock.keep_free_bytes = room->keep_free_bytes;
        return stock;
}

enum pinned_backing pool_settings_backing(const struct settings *settings,
                                          const struct pool_row *row)
{
        const struct pool_rule *rule = find_rule(settings, row, says_backing);

        if (settings->pinned_backing != PINNED_NOT_SAID)
                return settings->pinned_backing;
        return rule ? rule->backing : PINNED_MEMFD;
}

enum device_ipc pool_settings_ipc(const struct settings *settings, const struct pool_row *row)
{
        const struct pool_rule *rule = find_rule(settings, row, says_ipc);

        return rule ? rule->ipc : IPC_FD;
}
