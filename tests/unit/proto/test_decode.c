/* SPDX-License-Identifier: Apache-2.0 */
/* decode: every message of the list survives the way over the wire, and every rule of the list
 * refuses what it should. The list is read here a second time, so that a new message or field is
 * tested without a word more. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gpumem.h"
#include "proto/messages.h"
#include "tests/suite.h"

enum rule_kind { RULE_ANY, RULE_RANGE, RULE_MASK, RULE_TEXT, RULE_UTF8 };

struct field {
        const char *message;
        const char *name;
        unsigned kind;
        size_t offset; /* in the frame */
        size_t n_bytes;
        enum rule_kind rule;
        uint64_t low, high;
};

#define ANY              RULE_ANY, 0, 0
#define ZERO             RULE_RANGE, 0, 0
#define RANGE(low, high) RULE_RANGE, (low), (high)
#define MASK(bits)       RULE_MASK, (bits), 0

/* Fields of a message know each other by position: offsets are added up, and checked against the
 * struct's size by messages.def itself. */
static const struct field fields[] = {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        {#NAME, NULL, code, 0, 0, RULE_ANY, 0, 0},
#define U32(field, rule, text)     {NULL, #field, 0, 0, 4, rule},
#define U64(field, rule, text)     {NULL, #field, 0, 0, 8, rule},
#define TEXT(field, n_bytes, text) {NULL, #field, 0, 0, n_bytes, RULE_TEXT, 0, 0},
#define UTF8(field, n_bytes, text) {NULL, #field, 0, 0, n_bytes, RULE_UTF8, 0, 0},
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
};

static const struct message {
        enum message_kind kind;
        enum proto_sender sender;
        unsigned fds_min, fds_max;
        size_t n_bytes;
} messages[] = {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        {MESSAGE_##NAME, sender, fds_min, fds_max, sizeof(struct message_##name)},
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
        for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
                if ((unsigned)messages[i].kind == kind)
                        return &messages[i];
        }
        return NULL;
}

static void put(struct frame *frame, size_t offset, size_t n_bytes, uint64_t value)
{
        memcpy((char *)frame + offset, &value, n_bytes);
}

/* Calls `visit` for each field of a message, with its place in the frame. */
static void for_fields(unsigned kind, struct frame *frame,
                       void (*visit)(struct frame *frame, const struct field *field, size_t offset))
{
        size_t offset = FRAME_HEADER_BYTES, i = 0;

        while (!(fields[i].message && fields[i].kind == kind))
                i++;
        for (i++; i < ARRAY_SIZE(fields) && !fields[i].message; i++) {
                visit(frame, &fields[i], offset);
                offset += fields[i].n_bytes;
        }
}

static void fill_legal(struct frame *frame, const struct field *field, size_t offset)
{
        switch (field->rule) {
        case RULE_ANY:
                put(frame, offset, field->n_bytes, UINT64_C(0x0123456789abcdef));
                break;
        case RULE_RANGE:
                put(frame, offset, field->n_bytes, field->high);
                break;
        case RULE_MASK:
                put(frame, offset, field->n_bytes, field->low);
                break;
        case RULE_TEXT:
                proto_put_text((char *)frame + offset, field->n_bytes, "a text");
                break;
        case RULE_UTF8:
                proto_put_name((char *)frame + offset, field->n_bytes, "a n\xc3\xa4me");
                break;
        }
}

static struct frame legal_frame(const struct message *message)
{
        struct frame frame;

        memset(&frame, 0, sizeof(frame));
        for_fields(message->kind, &frame, fill_legal);
        proto_seal(&frame, message->kind, 7, message->fds_max);
        return frame;
}

static int decode(const void *frame, size_t n_bytes, unsigned n_fds, enum proto_sender sender)
{
        struct proto_reason reason = {NULL, NULL};
        struct frame decoded;
        int r = proto_decode(frame, n_bytes, n_fds, sender, &decoded, &reason);

        ck_assert(r != GPUMEM_E_BAD_FRAME || reason.what);
        if (r == 0)
                ck_assert_mem_eq(&decoded, frame, n_bytes);
        return r;
}

static int decode_as_sent(const struct frame *frame)
{
        return decode(frame, frame->n_bytes, frame->n_fds, find_message(frame->kind)->sender);
}

static const struct test_case list = {.name = "list"};

TEST(every_message_survives, .in = &list, .to = ARRAY_SIZE(messages))
{
        struct frame frame = legal_frame(&messages[_i]);

        ck_assert_int_eq(decode_as_sent(&frame), 0);
        ck_assert_str_ne(proto_name(frame.kind), "unknown");
}

TEST(every_cut_is_refused, .in = &list, .to = ARRAY_SIZE(messages))
{
        struct frame frame = legal_frame(&messages[_i]);
        char longer[sizeof(frame) + 8] = {0};

        for (uint32_t n = 0; n < frame.n_bytes; n++) {
                struct frame cut = frame;

                ck_assert_int_eq(decode(&cut, n, cut.n_fds, messages[_i].sender),
                                 GPUMEM_E_BAD_FRAME);
                cut.n_bytes = n;
                ck_assert_int_eq(decode(&cut, n, cut.n_fds, messages[_i].sender),
                                 GPUMEM_E_BAD_FRAME);
        }
        memcpy(longer, &frame, frame.n_bytes);
        put((void *)longer, 0, 4, frame.n_bytes + 8);
        ck_assert_int_eq(decode(longer, frame.n_bytes + 8, frame.n_fds, messages[_i].sender),
                         GPUMEM_E_BAD_FRAME);
}

TEST(headers_are_checked, .in = &list, .to = ARRAY_SIZE(messages))
{
        const struct message *message = &messages[_i];
        struct frame frame = legal_frame(message), bad;
        enum proto_sender other = message->sender == FROM_CLIENT ? FROM_DAEMON : FROM_CLIENT;

        bad = frame;
        bad.flags = 1;
        ck_assert_int_eq(decode_as_sent(&bad), GPUMEM_E_BAD_FRAME);
        ck_assert_int_eq(decode(&frame, frame.n_bytes, frame.n_fds + 1, message->sender),
                         GPUMEM_E_BAD_FRAME);
        bad = frame;
        bad.n_fds = (uint16_t)(message->fds_max + 1);
        ck_assert_int_eq(decode_as_sent(&bad), GPUMEM_E_BAD_FRAME);
        ck_assert_int_eq(decode(&frame, frame.n_bytes, frame.n_fds, other), GPUMEM_E_BAD_FRAME);
        bad = frame;
        bad.kind = 0x7777;
        ck_assert_int_eq(decode(&bad, bad.n_bytes, bad.n_fds, message->sender),
                         GPUMEM_E_UNKNOWN_KIND);
}

static unsigned n_refused;

static void expect_refusal(const struct frame *frame)
{
        ck_assert_int_eq(decode_as_sent(frame), GPUMEM_E_BAD_FRAME);
        n_refused++;
}

static uint64_t largest(const struct field *field)
{
        return field->n_bytes == 8 ? UINT64_MAX : UINT32_MAX;
}

static void break_range(struct frame *frame, const struct field *field, size_t offset)
{
        if (field->low > 0) {
                put(frame, offset, field->n_bytes, field->low - 1);
                expect_refusal(frame);
        }
        if (field->high < largest(field)) {
                put(frame, offset, field->n_bytes, field->high + 1);
                expect_refusal(frame);
        }
}

static void break_mask(struct frame *frame, const struct field *field, size_t offset)
{
        for (unsigned bit = 0; bit < field->n_bytes * 8; bit++) {
                if (field->low >> bit & 1)
                        continue;
                put(frame, offset, field->n_bytes, UINT64_C(1) << bit);
                expect_refusal(frame);
        }
}

/* Printable UTF-8, too, where a text is ASCII. */
static void break_encoding(struct frame *frame, const struct field *field, size_t offset)
{
        static const char *const wrong[] = {"\xc2\x9b", "\xe2\x80\xae", "\xe6\xbc", "\xc0\x9b",
                                            "\xc3\xa4"};
        char *text = (char *)frame + offset;

        for (unsigned i = 0; i < ARRAY_SIZE(wrong) - (field->rule == RULE_UTF8); i++) {
                memset(text, 0, field->n_bytes);
                (void)snprintf(text, field->n_bytes, "a%s", wrong[i]);
                expect_refusal(frame);
        }
}

static void break_text(struct frame *frame, const struct field *field, size_t offset)
{
        static const char unprintable[] = {'\n', 0x1f, 0x7f, '\x80', '\xff'};
        char *text = (char *)frame + offset;

        memset(text, 'a', field->n_bytes);
        expect_refusal(frame);
        for (unsigned i = 0; i < ARRAY_SIZE(unprintable); i++) {
                proto_put_text(text, field->n_bytes, "ab");
                text[1] = unprintable[i];
                expect_refusal(frame);
        }
        proto_put_text(text, field->n_bytes, "ab");
        text[field->n_bytes - 1] = 'c';
        expect_refusal(frame);
        break_encoding(frame, field, offset);
}

static void break_field(struct frame *frame, const struct field *field, size_t offset)
{
        struct frame broken = *frame;

        if (field->rule == RULE_RANGE)
                break_range(&broken, field, offset);
        else if (field->rule == RULE_MASK)
                break_mask(&broken, field, offset);
        else if (field->rule == RULE_TEXT || field->rule == RULE_UTF8)
                break_text(&broken, field, offset);
}

TEST(every_rule_refuses)
{
        n_refused = 0;
        for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
                struct frame frame = legal_frame(&messages[i]);

                for_fields(messages[i].kind, &frame, break_field);
        }
        ck_assert_uint_gt(n_refused, 50);
}

/* Whatever comes, nothing outside the bytes is read and a refusal has a reason. */
TEST(noise_is_decoded_or_refused)
{
        unsigned seed = 1;

        for (unsigned round = 0; round < 20000; round++) {
                const struct message *message = &messages[round % ARRAY_SIZE(messages)];
                struct frame frame = legal_frame(message);
                size_t n_bytes = frame.n_bytes;
                char *exact = malloc(n_bytes);

                memcpy(exact, &frame, n_bytes);
                for (unsigned flips = 1 + (unsigned)rand_r(&seed) % 4; flips; flips--)
                        exact[(unsigned)rand_r(&seed) % n_bytes] ^= (char)(1 << (unsigned)rand_r(
                                                                                        &seed) %
                                                                                        8);
                (void)decode(exact, n_bytes, frame.n_fds, message->sender);
                free(exact);
        }
}

TEST(codes_are_told_apart)
{
        for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
                for (size_t k = 0; k < i; k++)
                        ck_assert_int_ne((int)messages[i].kind, (int)messages[k].kind);
        }
        ck_assert_str_eq(proto_name(0x7777), "unknown");
        ck_assert_str_eq(proto_name(MESSAGE_LEASE), "LEASE");
}

TEST(every_error_has_a_text)
{
        unsigned n = 0;

#define GPUMEM_ERROR(name, code, text)                             \
        ck_assert_str_eq(proto_error_text(GPUMEM_E_##name), text); \
        n++;
#include "gpumem-errors.def"
#undef GPUMEM_ERROR
        ck_assert_uint_ge(n, 20);
        ck_assert_ptr_null(proto_error_text(0));
        ck_assert_ptr_null(proto_error_text(9999));
}

TEST(texts_are_made_printable)
{
        char field[8];

        proto_put_text(field, sizeof(field), "a\nb\xff");
        ck_assert_mem_eq(field, "a?b?\0\0\0\0", 8);
        proto_put_text(field, sizeof(field), "\xc3\xa4\xe6\xbc\xa2");
        ck_assert_mem_eq(field, "??\0\0\0\0\0\0", 8);
        proto_put_name(field, sizeof(field), "\xc3\xa4\xe6\xbc\xa2\xc2\x9b");
        ck_assert_mem_eq(field, "\xc3\xa4\xe6\xbc\xa2?\0\0", 8);
        proto_put_text(field, sizeof(field), "much too long");
        ck_assert_mem_eq(field, "much to\0", 8);
}

TEST(a_wait_has_its_bound)
{
        ck_assert_uint_eq(proto_wait_ms(0), 0);
        ck_assert_uint_eq(proto_wait_ms(1), 1);
        ck_assert_uint_eq(proto_wait_ms(PROTO_WAIT_MS_MAX), PROTO_WAIT_MS_MAX);
        ck_assert_uint_eq(proto_wait_ms(PROTO_WAIT_MS_MAX + 1), PROTO_WAIT_MS_MAX);
        ck_assert_uint_eq(proto_wait_ms(UINT32_MAX), PROTO_WAIT_MS_MAX);
}

TESTS_MAIN("rules")
