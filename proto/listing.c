/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/listing.h"

#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "proto/messages.h"

static_assert(sizeof(struct client_row) == 328, "rows have no padding");
static_assert(sizeof(struct block_row) == 88, "rows have no padding");
static_assert(sizeof(struct tenant_row) == 136, "rows have no padding");
static_assert(sizeof(struct event_row) == 552, "rows have no padding");

#define FIELD(field, type, unit, heading)                                             \
        ((struct row_field){#field, type, unit, heading, offsetof(struct ROW, field), \
                            sizeof(((struct ROW *)0)->field)})
#define ROW_U32(field, unit, heading, text)     FIELD(field, ROW_TYPE_U32, ROW_UNIT_##unit, heading),
#define ROW_U64(field, unit, heading, text)     FIELD(field, ROW_TYPE_U64, ROW_UNIT_##unit, heading),
#define ROW_TEXT(field, n_bytes, heading, text) FIELD(field, ROW_TYPE_TEXT, ROW_UNIT_text, heading),

#define ROW client_row
static const struct row_field client_fields[] = {
#include "proto/clients.def"
};
#undef ROW

#define ROW block_row
static const struct row_field block_fields[] = {
#include "proto/blocks.def"
};
#undef ROW

#define ROW tenant_row
static const struct row_field tenant_fields[] = {
#include "proto/tenants.def"
};
#undef ROW

#define ROW event_row
static const struct row_field event_fields[] = {
#include "proto/events.def"
};
#undef ROW

const struct row_list client_row_list = {client_fields, ARRAY_SIZE(client_fields),
                                         sizeof(struct client_row)};
const struct row_list block_row_list = {block_fields, ARRAY_SIZE(block_fields),
                                        sizeof(struct block_row)};
const struct row_list tenant_row_list = {tenant_fields, ARRAY_SIZE(tenant_fields),
                                         sizeof(struct tenant_row)};
const struct row_list event_row_list = {event_fields, ARRAY_SIZE(event_fields),
                                        sizeof(struct event_row)};

uint64_t row_value(const struct row_field *field, const void *row)
{
        uint64_t value = 0;
        uint32_t narrow;

        assert(field->type != ROW_TYPE_TEXT);
        if (field->type == ROW_TYPE_U64) {
                memcpy(&value, (const char *)row + field->offset, sizeof(value));
                return value;
        }
        memcpy(&narrow, (const char *)row + field->offset, sizeof(narrow));
        return narrow;
}

static const char *name_of(const char *const *names, size_t n_names, uint64_t value)
{
        return value < n_names && names[value] ? names[value] : "unknown";
}

const char *listed_client_name(uint64_t state)
{
        static const char *const names[] = {
                [LISTED_READY] = "ready",
                [LISTED_LEFT] = "left",
                [LISTED_ORPHANED] = "orphaned",
                [LISTED_OTHERS] = "others",
        };

        return name_of(names, ARRAY_SIZE(names), state);
}

const char *listed_block_name(uint64_t state)
{
        static const char *const names[] = {
                [LISTED_LEASED] = "leased",       [LISTED_CACHED] = "cached",
                [LISTED_LINGERING] = "lingering", [LISTED_SUM] = "others",
                [LISTED_IDLE] = "idle",
        };

        return name_of(names, ARRAY_SIZE(names), state);
}

const char *listed_event_name(uint64_t what)
{
        static const char *const names[LISTED_EVENT_N] = {
#define EVENT(NAME, name, number, lane, text) [number] = #name,
#include "proto/event_kinds.def"
#undef EVENT
        };

        return name_of(names, ARRAY_SIZE(names), what);
}

const char *listed_reason_name(uint64_t reason)
{
        static const char *const names[] = {
                [PROTO_REFUSED_OTHERWISE] = "otherwise",
                [PROTO_REFUSED_QUOTA] = "limit",
                [PROTO_REFUSED_POOL_FULL] = "pool full",
                [PROTO_REFUSED_DEVICE_FULL] = "device full",
                [PROTO_REFUSED_LINGERING] = "lingering",
                [PROTO_REFUSED_IDLE] = "idle",
                [PROTO_REFUSED_FRAGMENTATION] = "fragmentation",
        };

        return name_of(names, ARRAY_SIZE(names), reason);
}

const char *listed_device_text(uint64_t state)
{
        static const char *const texts[] = {
                [PROTO_DEVICE_UNKNOWN] = "unknown",
                [PROTO_DEVICE_WELL] = "well",
                [PROTO_DEVICE_WORN] = "to be drained and reset, or replaced",
                [PROTO_DEVICE_NEEDS_RESET] = "needs a reset",
                [PROTO_DEVICE_NEEDS_REBOOT] = "needs a reboot of the machine",
                [PROTO_DEVICE_LOST] = "lost: it does not answer",
        };

        return name_of(texts, ARRAY_SIZE(texts), state);
}

const char *limit_scope_name(uint64_t scope)
{
        static const char *const names[] = {
                [PROTO_LIMIT_OF_CLIENT] = "client",
                [PROTO_LIMIT_OF_TENANT] = "tenant",
                [PROTO_LIMIT_OF_POOL] = "pool",
        };

        return scope && scope < ARRAY_SIZE(names) ? names[scope] : "?";
}

const char *limit_kind_name(uint64_t kind)
{
        static const char *const names[] = {
                [PROTO_LIMIT_DEVICE_BYTES] = "device_bytes",
                [PROTO_LIMIT_PINNED_BYTES] = "pinned_bytes",
                [PROTO_LIMIT_LEASES] = "leases",
                [PROTO_LIMIT_RESERVED_BYTES] = "max_bytes",
                [PROTO_LIMIT_MIN_BYTES] = "min_bytes",
                [PROTO_LIMIT_CACHED_BYTES] = "keep_cached_bytes",
                [PROTO_LIMIT_FREE_BYTES] = "keep_free_bytes",
                [PROTO_LIMIT_RETURN_SECONDS] = "return_after_seconds",
        };

        return kind && kind < ARRAY_SIZE(names) ? names[kind] : "?";
}
