/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of PROTOCOL.md, each between the two lines that mark its place there.
 *
 * Messages, errors and figures come from their lists. Structs that have no list are described here,
 * field by field, and an assert fails when one has more than that. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/fdset.h"
#include "proto/board.h"
#include "proto/listing.h"
#include "proto/messages.h"

enum rule { RULE_ANY, RULE_RANGE, RULE_MASK };

#define ANY              RULE_ANY, 0, 0
#define ZERO             RULE_RANGE, 0, 0
#define RANGE(low, high) RULE_RANGE, (low), (high)
#define MASK(bits)       RULE_MASK, (bits), 0

static void begin(const char *section)
{
        (void)printf("<!-- generated: begin %s -->\n", section);
}

static void end(void)
{
        (void)printf("<!-- end -->\n");
}

/* Powers of two are told as such where a reader would not know them by heart. */
static void format_number(uint64_t value, char *text, size_t n_text)
{
        unsigned bits = 0;

        while (bits < 63 && UINT64_C(1) << bits < value)
                bits++;
        if (bits >= 16 && value == UINT64_C(1) << bits)
                (void)snprintf(text, n_text, "2^%u", bits);
        else if (bits >= 16 && value == (UINT64_C(1) << bits) - 1)
                (void)snprintf(text, n_text, "2^%u - 1", bits);
        else
                (void)snprintf(text, n_text, "%" PRIu64, value);
}

static void format_range(uint64_t low, uint64_t high, size_t n_bytes, char *text, size_t n_text)
{
        uint64_t max = n_bytes == 8 ? UINT64_MAX : UINT32_MAX;
        char low_text[32], high_text[32];

        format_number(low, low_text, sizeof(low_text));
        format_number(high, high_text, sizeof(high_text));
        if (low == high && high > UINT16_MAX)
                (void)snprintf(text, n_text, "%#" PRIx64, high);
        else if (low == high)
                (void)snprintf(text, n_text, "%" PRIu64, high);
        else if (high == max)
                (void)snprintf(text, n_text, "%s or more", low_text);
        else
                (void)snprintf(text, n_text, "%s to %s", low_text, high_text);
}

static void format_rule(enum rule rule, uint64_t low, uint64_t high, size_t n_bytes, char *text,
                        size_t n_text)
{
        switch (rule) {
        case RULE_ANY:
                (void)snprintf(text, n_text, "any");
                break;
        case RULE_RANGE:
                format_range(low, high, n_bytes, text, n_text);
                break;
        case RULE_MASK:
                (void)snprintf(text, n_text, "bits of %#" PRIx64, low);
                break;
        }
}

static void begin_message(const char *name, unsigned code, enum proto_sender sender,
                          unsigned fds_min, unsigned fds_max, size_t n_bytes, const char *text)
{
        const char *way = sender == FROM_CLIENT ? "client to daemon" : "daemon to client";

        (void)printf("\n### %s\n\n`0x%04x`, %s, %zu bytes", name, code, way, n_bytes);
        if (fds_min != fds_max)
                (void)printf(", %u to %u fds", fds_min, fds_max);
        else if (fds_max)
                (void)printf(", %u %s", fds_max, fds_max == 1 ? "fd" : "fds");
        (void)printf(". %s\n", text);
}

static void print_field(size_t *offset, size_t n_bytes, const char *name, const char *values,
                        const char *text)
{
        if (*offset == 0)
                (void)printf(
                        "\n| offset | bytes | field | values | meaning |\n|---|---|---|---|---|\n");
        (void)printf("| %zu | %zu | `%s` | %s | %s |\n", *offset, n_bytes, name, values, text);
        *offset += n_bytes;
}

static void print_number(size_t *offset, size_t n_bytes, const char *name, enum rule rule,
                         uint64_t low, uint64_t high, const char *text)
{
        char values[80];

        format_rule(rule, low, high, n_bytes, values, sizeof(values));
        print_field(offset, n_bytes, name, values, text);
}

static void print_messages(void)
{
        size_t offset;

        begin("messages");
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        offset = 0;                                               \
        begin_message(#NAME, code, sender, fds_min, fds_max, sizeof(struct message_##name), text);
#define U32(field, rule, text)     print_number(&offset, 4, #field, rule, text);
#define U64(field, rule, text)     print_number(&offset, 8, #field, rule, text);
#define TEXT(field, n_bytes, text) print_field(&offset, n_bytes, #field, "text", text);
#define UTF8(field, n_bytes, text) print_field(&offset, n_bytes, #field, "UTF-8", text);
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
        (void)printf("\n");
        end();
}

static void begin_members(const char *section)
{
        begin(section);
        (void)printf("| offset | bytes | field | meaning |\n|---|---|---|---|\n");
}

static void print_member(size_t *offset, size_t at, size_t n_bytes, const char *name,
                         const char *text)
{
        assert(at == *offset);
        (void)printf("| %zu | %zu | `%s` | %s |\n", at, n_bytes, name, text);
        *offset += n_bytes;
}

#define MEMBER(type, member, text) \
        print_member(&offset, offsetof(type, member), sizeof(((type *)0)->member), #member, text)

/* Words of the document that stand outside its tables. */
static_assert(PROTO_VERSION == 1 && sizeof(struct frame) == 472 && FDSET_MAX == 4,
              "PROTOCOL.md says so");

static void print_header(void)
{
        size_t offset = 0;

        begin_members("header");
        MEMBER(struct frame, n_bytes, "bytes of header and message: those of the datagram");
        MEMBER(struct frame, kind, "the message's code");
        MEMBER(struct frame, n_fds, "file descriptors that come with it");
        MEMBER(struct frame, serial, "names a request; its answer bears the same");
        MEMBER(struct frame, flags, "0");
        assert(offset == FRAME_HEADER_BYTES);
        end();
}

static void print_pool_row(void)
{
        size_t offset = 0;

        begin_members("pool-row");
        MEMBER(struct pool_row, id,
               "names the pool in messages; rows stand in the order of ids, from 0");
        MEMBER(struct pool_row, kind, "1: device memory, 2: pinned host memory");
        MEMBER(struct pool_row, place,
               "device: the daemon's index of it, for display; pinned: NUMA node");
        MEMBER(struct pool_row, properties,
               "bit 0: blocks are the driver's exportable host memory, not memfds; a pool with a "
               "bit "
               "that a client does not know is not for it");
        MEMBER(struct pool_row, uuid,
               "device: the GPU's UUID, by which a client finds it; pinned: zero");
        MEMBER(struct pool_row, name, "for people; ends with a NUL");
        MEMBER(struct pool_row, n_capacity_bytes, "of the device, or of the node's memory");
        MEMBER(struct pool_row, n_max_bytes, "most that the pool may reserve");
        MEMBER(struct pool_row, n_granularity_bytes, "sizes of blocks are multiples of it");
        assert(offset == sizeof(struct pool_row));
        end();
}

static void print_stats_row(void)
{
        size_t offset = 0;

        begin_members("stats-row");
        MEMBER(struct stats_row, pool, "pool's id");
        MEMBER(struct stats_row, kind, "1: device memory, 2: pinned host memory");
#define STAT(field, unit, text) MEMBER(struct stats_row, field, #unit ": " text);
#include "proto/stats.def"
#undef STAT
        assert(offset == sizeof(struct stats_row));
        end();
}

#define ROW_U32(field, unit, heading, text)     MEMBER(struct ROW, field, #unit ": " text);
#define ROW_U64(field, unit, heading, text)     MEMBER(struct ROW, field, #unit ": " text);
#define ROW_TEXT(field, n_bytes, heading, text) MEMBER(struct ROW, field, "text: " text);

static void print_client_row(void)
{
        size_t offset = 0;

        begin_members("client-row");
#define ROW client_row
#include "proto/clients.def"
#undef ROW
        assert(offset == sizeof(struct client_row));
        end();
}

static void print_block_row(void)
{
        size_t offset = 0;

        begin_members("block-row");
#define ROW block_row
#include "proto/blocks.def"
#undef ROW
        assert(offset == sizeof(struct block_row));
        end();
}

static void print_tenant_row(void)
{
        size_t offset = 0;

        begin_members("tenant-row");
#define ROW tenant_row
#include "proto/tenants.def"
#undef ROW
        assert(offset == sizeof(struct tenant_row));
        end();
}

static void print_event_row(void)
{
        size_t offset = 0;

        begin_members("event-row");
#define ROW event_row
#include "proto/events.def"
#undef ROW
        assert(offset == sizeof(struct event_row));
        end();
}

#define OF_USE     "its tenant's"
#define OF_TROUBLE "its tenant's"
#define OF_NODE    "the node's"
#define EVENT(NAME, name, number, lane, text) \
        (void)printf("| %d | %s | %s | %s |\n", number, #name, lane, text);

static void print_event_kinds(void)
{
        begin("event-kinds");
        (void)printf("| number | name | whose | what happened |\n|---|---|---|---|\n");
#include "proto/event_kinds.def"
        end();
}

/* Words of the document about these rows. */
static_assert(LISTING_NOBODY == 0xffffffff && LISTED_OTHERS == 4 && LISTED_SUM == 4,
              "PROTOCOL.md says so");

static void print_board_pool(void)
{
        size_t offset = 0;

        begin_members("board-pool");
        MEMBER(struct board_pool, requested_peak, "highest that the sum of requested was");
        MEMBER(struct board_pool, allocated_peak, "highest that the sum of allocated was");
        MEMBER(struct board_pool, reserved, "0");
        MEMBER(struct board_pool, lanes, "8 times the following");
        assert(offset == sizeof(struct board_pool));
        end();
}

static void print_board_lane(void)
{
        size_t offset = 0;

        static_assert(BOARD_LANES == 8, "the text above says so");
        begin_members("board-lane");
        MEMBER(struct board_lane, requested, "bytes of allocations, as asked for");
        MEMBER(struct board_lane, allocated, "bytes of allocations, rounded up to 512");
        MEMBER(struct board_lane, hits, "allocations that needed no message");
        MEMBER(struct board_lane, misses, "allocations that needed a block");
        MEMBER(struct board_lane, reserved, "0");
        assert(offset == sizeof(struct board_lane));
        end();
}

static void print_errors(void)
{
        begin("errors");
        (void)printf("| code | name | text |\n|---|---|---|\n");
#define GPUMEM_ERROR(name, code, text) (void)printf("| %d | `%s` | %s |\n", code, #name, text);
#include "gpumem-errors.def"
#undef GPUMEM_ERROR
        end();
}

int main(void)
{
        print_header();
        print_messages();
        print_pool_row();
        print_stats_row();
        print_client_row();
        print_block_row();
        print_tenant_row();
        print_event_row();
        print_event_kinds();
        print_board_pool();
        print_board_lane();
        print_errors();
        return fflush(stdout) ? 1 : 0;
}
