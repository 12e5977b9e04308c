/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/printable.h"
#include "gpumem.h"

enum rule_kind { RULE_ANY, RULE_RANGE, RULE_MASK, RULE_TEXT, RULE_UTF8 };

struct field {
        const char *name;
        size_t n_bytes;
        enum rule_kind rule;
        uint64_t low;  /* RULE_MASK: the bits that are known */
        uint64_t high; /* RULE_RANGE only */
};

struct message {
        const char *name;
        enum message_kind kind;
        enum proto_sender sender;
        unsigned fds_min;
        unsigned fds_max;
        size_t n_bytes;
        const struct field *fields; /* ends with a name of NULL */
};

#define ANY              RULE_ANY, 0, 0
#define ZERO             RULE_RANGE, 0, 0
#define RANGE(low, high) RULE_RANGE, (low), (high)
#define MASK(bits)       RULE_MASK, (bits), 0

#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        static const struct field name##_fields[] = {
#define U32(field, rule, text)     {#field, 4, rule},
#define U64(field, rule, text)     {#field, 8, rule},
#define TEXT(field, n_bytes, text) {#field, (n_bytes), RULE_TEXT, 0, 0},
#define UTF8(field, n_bytes, text) {#field, (n_bytes), RULE_UTF8, 0, 0},
#define END_MESSAGE(NAME, name, n_bytes) \
        {                                \
                NULL, 0, RULE_ANY, 0, 0  \
        }                                \
        }                                \
        ;
#include "proto/messages.def"
#include "proto/messages_undef.h"

/* Where a kind is in the table: the daemon's kinds are in its second half. Two that had one place would not compile. */
#define PLACE(kind) (((kind) >> 8 & 0x80) | ((kind)&0x7f))
#define N_PLACES    0x100

static const struct message messages[N_PLACES] = {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text)                     \
        [PLACE(code)] = {#NAME,        MESSAGE_##NAME, sender,                        \
                         fds_min,      fds_max,        sizeof(struct message_##name), \
                         name##_fields},
#define U32(field, rule, text)
#define U64(field, rule, text)
#define TEXT(field, n_bytes, text)
#define UTF8(field, n_bytes, text)
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
};

static const struct message *find_message(unsigned kind)
{
        const struct message *message = &messages[PLACE(kind)];

        return message->name && (unsigned)message->kind == kind ? message : NULL;
}

static bool is_ascii(const char *text, size_t n_bytes)
{
        for (size_t i = 0; i < n_bytes; i++) {
                if ((unsigned char)text[i] >= 0x80)
                        return false;
        }
        return true;
}

static const char *check_text(const char *text, size_t n_bytes, enum rule_kind rule)
{
        size_t length = strnlen(text, n_bytes);

        if (length == n_bytes)
                return "text without an end";
        if (!printable_is(text, length) || (rule == RULE_TEXT && !is_ascii(text, length)))
                return "text with an unprintable byte";
        for (size_t i = length; i < n_bytes; i++) {
                if (text[i])
                        return "bytes after a text's end";
        }
        return NULL;
}

static const char *check_number(const struct field *field, uint64_t value)
{
        if (field->rule == RULE_MASK && (value & ~field->low))
                return "an unknown bit";
        if (field->rule == RULE_RANGE && (value < field->low || value > field->high))
                return field->high ? "a value out of its range" : "a reserved field that is not 0";
        return NULL;
}

static const char *check_field(const struct field *field, const char *bytes)
{
        uint64_t value = 0;
        uint32_t half;

        if (field->rule == RULE_TEXT || field->rule == RULE_UTF8)
                return check_text(bytes, field->n_bytes, field->rule);
        if (field->n_bytes == sizeof(value)) {
                memcpy(&value, bytes, sizeof(value));
        } else {
                memcpy(&half, bytes, sizeof(half));
                value = half;
        }
        return check_number(field, value);
}

/* What is wrong with the header, given what was received. */
static const char *check_header(const struct frame *frame, size_t n_bytes, unsigned n_fds)
{
        if (frame->n_bytes != n_bytes)
                return "a length that is not the datagram's";
        if (frame->flags)
                return "reserved flags that are not 0";
        if (frame->n_fds != n_fds)
                return "another number of fds than it says";
        return NULL;
}

static int bad(struct proto_reason *ret_reason, const char *what, const char *field)
{
        ret_reason->what = what;
        ret_reason->field = field;
        return GPUMEM_E_BAD_FRAME;
}

/* `bytes`: of the message, after the header. */
static int check_message(const struct message *message, const struct frame *frame,
                         const char *bytes, enum proto_sender sender,
                         struct proto_reason *ret_reason)
{
        if (message->sender != sender)
                return bad(ret_reason, "a message that only the other side sends", NULL);
        if (frame->n_fds < message->fds_min || frame->n_fds > message->fds_max)
                return bad(ret_reason, "a number of fds that this message does not carry", NULL);
        for (const struct field *field = message->fields; field->name; field++) {
                const char *what = field->rule == RULE_ANY ? NULL : check_field(field, bytes);

                if (what)
                        return bad(ret_reason, what, field->name);
                bytes += field->n_bytes;
        }
        return 0;
}

int proto_decode(const void *bytes, size_t n_bytes, unsigned n_fds, enum proto_sender sender,
                 struct frame *ret_frame, struct proto_reason *ret_reason)
{
        const struct message *message;
        const char *what;
        int r;

        memset(ret_frame, 0, FRAME_HEADER_BYTES);
        memcpy(ret_frame, bytes, n_bytes < FRAME_HEADER_BYTES ? n_bytes : FRAME_HEADER_BYTES);
        if (n_bytes < FRAME_HEADER_BYTES)
                return bad(ret_reason, "fewer bytes than a header has", NULL);
        what = check_header(ret_frame, n_bytes, n_fds);
        if (what)
                return bad(ret_reason, what, NULL);
        message = find_message(ret_frame->kind);
        if (!message)
                return GPUMEM_E_UNKNOWN_KIND;
        if (n_bytes != FRAME_HEADER_BYTES + message->n_bytes)
                return bad(ret_reason, "another size than this message has", NULL);
        r = check_message(message, ret_frame, (const char *)bytes + FRAME_HEADER_BYTES, sender,
                          ret_reason);
        if (!r)
                memcpy(ret_frame, bytes, n_bytes);
        return r;
}

void proto_seal(struct frame *frame, enum message_kind kind, uint32_t serial, unsigned n_fds)
{
        const struct message *message = find_message(kind);

        assert(message && n_fds >= message->fds_min && n_fds <= message->fds_max);
        frame->n_bytes = (uint32_t)(FRAME_HEADER_BYTES + message->n_bytes);
        frame->kind = (uint16_t)kind;
        frame->n_fds = (uint16_t)n_fds;
        frame->serial = serial;
        frame->flags = 0;
}

const char *proto_name(unsigned kind)
{
        const struct message *message = find_message(kind);

        return message ? message->name : "unknown";
}

void proto_put_text(char *field, size_t n_field_bytes, const char *text)
{
        printable_copy(field, n_field_bytes, text, strlen(text), PRINTABLE_ASCII);
}

void proto_put_name(char *field, size_t n_field_bytes, const char *name)
{
        printable_copy(field, n_field_bytes, name, strlen(name), PRINTABLE_UTF8);
}

const char *proto_error_text(int code)
{
        switch (code) {
#define GPUMEM_ERROR(name, code, text) \
        case code:                     \
                return text;
#include "gpumem-errors.def"
#undef GPUMEM_ERROR
        default:
                return NULL;
        }
}
