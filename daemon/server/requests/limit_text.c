/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/limit_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "proto/listing.h"
#include "proto/messages.h"

static const char *number_format(uint64_t n, char text[static SIZE_TEXT_MAX])
{
        (void)snprintf(text, SIZE_TEXT_MAX, "%" PRIu64, n);
        return text;
}

static void name_who(const struct limit_name *name, char *text, size_t n_text)
{
        const char *scope = limit_scope_name(name->scope);

        if (name->holder == PROTO_LIMIT_OF_EACH)
                (void)snprintf(text, n_text, "%s", scope);
        else
                (void)snprintf(text, n_text, "%s/%" PRIu32, scope, name->holder);
}

const char *limit_text(const struct limit_name *name, uint64_t max,
                       char text[static LIMIT_TEXT_MAX])
{
        char who[32], n[SIZE_TEXT_MAX];
        const char *most;

        name_who(name, who, sizeof(who));
        if (max == PROTO_LIMIT_NONE)
                most = "none";
        else if (max == PROTO_LIMIT_INHERIT)
                most = "default";
        else if (name->kind == PROTO_LIMIT_LEASES || name->kind == PROTO_LIMIT_RETURN_SECONDS)
                most = number_format(max, n);
        else
                most = size_format(max, n);
        (void)snprintf(text, LIMIT_TEXT_MAX, "%s:%s=%s", who, limit_kind_name(name->kind), most);
        return text;
}

static void log_change(const struct limit_name *name, uint64_t before, uint64_t now)
{
        char text[LIMIT_TEXT_MAX], last[LIMIT_TEXT_MAX];

        if (before != now)
                log_info("limit: %s, before: %s", limit_text(name, now, text),
                         strchr(limit_text(name, before, last), '=') + 1);
}

static uint64_t each_max(const struct limits *table, uint32_t scope, enum limit_kind kind)
{
        if (!table)
                return LIMIT_NONE;
        return scope == PROTO_LIMIT_OF_CLIENT ? table->client.max[kind] : table->tenant.max[kind];
}

static uint64_t own_max(const struct limits *table, uint32_t uid, enum limit_kind kind)
{
        return table ? limits_own_max(table, uid, kind) : LIMIT_INHERIT;
}

static void log_own_changes(const struct limits *before, const struct limits *now, uint32_t uid)
{
        for (uint32_t kind = 0; kind < LIMIT_N_KINDS; kind++)
                log_change(&(struct limit_name){PROTO_LIMIT_OF_TENANT, uid,
                                                PROTO_LIMIT_DEVICE_BYTES + kind},
                           own_max(before, uid, (enum limit_kind)kind),
                           own_max(now, uid, (enum limit_kind)kind));
}

static bool names(const struct limits *table, uint32_t uid)
{
        return table && limits_find_uid(table, uid) < table->n_uids;
}

void limit_text_log_changes(const struct limits *before, const struct limits *now)
{
        for (uint32_t scope = PROTO_LIMIT_OF_CLIENT; scope <= PROTO_LIMIT_OF_TENANT; scope++) {
                for (uint32_t kind = 0; kind < LIMIT_N_KINDS; kind++)
                        log_change(&(struct limit_name){scope, PROTO_LIMIT_OF_EACH,
                                                        PROTO_LIMIT_DEVICE_BYTES + kind},
                                   each_max(before, scope, (enum limit_kind)kind),
                                   each_max(now, scope, (enum limit_kind)kind));
        }
        for (size_t i = 0; before && i < before->n_uids; i++)
                log_own_changes(before, now, before->uids[i].uid);
        for (size_t i = 0; now && i < now->n_uids; i++) {
                if (!names(before, now->uids[i].uid))
                        log_own_changes(before, now, now->uids[i].uid);
        }
}
