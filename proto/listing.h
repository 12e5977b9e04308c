/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of CLIENTS_REPLY, BLOCKS_REPLY, TENANTS_REPLY and EVENTS_REPLY, from the lists clients.def, blocks.def,
 * tenants.def and events.def: their structs, and descriptions from which a table or JSON is made.
 *
 *    ROW_U32(field, unit, heading, text)  ROW_U64(field, unit, heading, text)
 *    ROW_TEXT(field, n_bytes, heading, text)
 *
 * Units: bytes, count, ms, id, any_id (LISTING_NOBODY: none), serial (0: none), pid, uid, kind (enum gpumem_kind),
 * properties, client_state, block_state, event, reason. An empty heading: not in the table. Fields stand in this
 * order without padding; a later version may append fields, since a reply tells the size of its rows.
 *
 * Root and the daemon's own user see all rows. Any other user sees those of its own tenant; the others are summed up
 * in one row (of clients), one for each pool, or one for each kind of event. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As a uid: other tenants. No user has it. */
#define LISTING_NOBODY UINT32_MAX

/* A 64-bit value that a row of other tenants does not have, since its sum would mean nothing. */
#define LISTING_UNTOLD UINT64_MAX

enum listed_client {
        LISTED_READY = 1, /* connected */
        LISTED_LEFT,      /* connection over, but the process may still map what it had */
        LISTED_ORPHANED,  /* process over, but a child holds the connection */
        LISTED_OTHERS,    /* a row of other tenants */
};

enum listed_block {
        LISTED_LEASED = 1,
        LISTED_CACHED,
        LISTED_LINGERING,
        LISTED_SUM,  /* a row of other tenants */
        LISTED_IDLE, /* leased, but not used by its client at present */
};

/* The kinds of event_kinds.def. */
enum listed_event {
#define EVENT(NAME, name, number, lane, text) LISTED_EVENT_##NAME = (number),
#include "proto/event_kinds.def"
#undef EVENT
        LISTED_EVENT_N = 32,
};

#define ROW_U32(field, unit, heading, text)     uint32_t field;
#define ROW_U64(field, unit, heading, text)     uint64_t field;
#define ROW_TEXT(field, n_bytes, heading, text) char field[n_bytes];

struct client_row {
#include "proto/clients.def"
};

struct block_row {
#include "proto/blocks.def"
};

struct tenant_row {
#include "proto/tenants.def"
};

struct event_row {
#include "proto/events.def"
};

#undef ROW_U32
#undef ROW_U64
#undef ROW_TEXT

enum row_type { ROW_TYPE_U32, ROW_TYPE_U64, ROW_TYPE_TEXT };

enum row_unit {
        ROW_UNIT_bytes,
        ROW_UNIT_count,
        ROW_UNIT_ms,
        ROW_UNIT_id,
        ROW_UNIT_any_id,
        ROW_UNIT_serial,
        ROW_UNIT_pid,
        ROW_UNIT_uid,
        ROW_UNIT_kind,
        ROW_UNIT_properties,
        ROW_UNIT_client_state,
        ROW_UNIT_block_state,
        ROW_UNIT_event,
        ROW_UNIT_reason,
        ROW_UNIT_text,
};

struct row_field {
        const char *name;
        enum row_type type;
        enum row_unit unit;
        const char *heading; /* "": not in the table */
        size_t offset;
        size_t n_bytes;
};

struct row_list {
        const struct row_field *fields;
        unsigned n_fields;
        size_t n_row_bytes;
};

extern const struct row_list client_row_list, block_row_list, tenant_row_list, event_row_list;

/* The value of a row's field; not for texts. */
uint64_t row_value(const struct row_field *field, const void *row);

/* "leased"; "unknown" for a value that is not in the enum. */
const char *listed_client_name(uint64_t state);
const char *listed_block_name(uint64_t state);
const char *listed_event_name(uint64_t what);
const char *listed_reason_name(uint64_t reason); /* of enum proto_refused */
const char *listed_device_text(uint64_t state);  /* "needs a reset": of PROTO_DEVICE_* */

/* "tenant", "device_bytes"; "?" for an unknown scope or kind. */
const char *limit_scope_name(uint64_t scope);
const char *limit_kind_name(uint64_t kind);
