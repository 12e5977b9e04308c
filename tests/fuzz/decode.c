/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of frames, as the daemon uses it and as clients do; and what is read out of rows. */
#include "base/err.h"
#include "base/printable.h"
#include "gpumem.h"
#include "proto/listing.h"
#include "proto/refusal_text.h"
#include "tests/fuzz/datagram.h"

const char fuzz_name[] = "decode";

static void expect_text(const char *text, size_t n_bytes)
{
        size_t length = strnlen(text, n_bytes);

        FUZZ_EXPECT(length < n_bytes);
        for (size_t i = 0; i < length; i++)
                FUZZ_EXPECT(text[i] >= 0x20 && text[i] < 0x7f);
}

static void expect_name(const char *name, size_t n_bytes)
{
        size_t length = strnlen(name, n_bytes);

        FUZZ_EXPECT(length < n_bytes);
        FUZZ_EXPECT(printable_is(name, length));
}

/* What everybody behind the decoder relies on. */
static void expect_texts(const struct frame *frame)
{
        switch (frame->kind) {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text)    \
        case code: {                                                 \
                const struct message_##name *message = &frame->name; \
                FUZZ_EXPECT(frame->n_fds >= (fds_min));              \
                FUZZ_EXPECT(frame->n_fds <= (fds_max));              \
                (void)message;
#define U32(field, rule, text)
#define U64(field, rule, text)
#define TEXT(field, n_bytes, text) expect_text(message->field, n_bytes);
#define UTF8(field, n_bytes, text) expect_name(message->field, n_bytes);
#define END_MESSAGE(NAME, name, n_message_bytes)                               \
        FUZZ_EXPECT(frame->n_bytes == FRAME_HEADER_BYTES + (n_message_bytes)); \
        break;                                                                 \
        }
#include "proto/messages.def"
#include "proto/messages_undef.h"
        default:
                abort();
        }
}

/* A refusal's facts become a text, whatever they say. */
static void expect_refusal(const struct frame *frame)
{
        char text[REFUSAL_TEXT_BYTES];

        memset(text, 0, sizeof(text));
        refusal_frame_text(frame, text);
        expect_text(text, sizeof(text));
        FUZZ_EXPECT(refusal_code(frame) || !*text);
}

/* It is what came, and to seal it again changes nothing. */
static void expect_same(const struct datagram *datagram, struct frame *frame)
{
        struct frame before = *frame;

        FUZZ_EXPECT(memcmp(frame, datagram->bytes, datagram->n_bytes) == 0);
        FUZZ_EXPECT(strcmp(proto_name(frame->kind), "unknown") != 0);
        proto_seal(frame, (enum message_kind)frame->kind, frame->serial, frame->n_fds);
        FUZZ_EXPECT(memcmp(frame, &before, sizeof(before)) == 0);
}

/* At the very end of a buffer, so that a byte too many that is read is seen. */
static enum fuzz_outcome decode(const struct datagram *datagram, enum proto_sender sender)
{
        static uint8_t buffer[DATAGRAM_BYTES_MAX];
        uint8_t *bytes = buffer + sizeof(buffer) - datagram->n_bytes;
        struct proto_reason reason = {NULL, NULL};
        struct frame frame;
        int r;

        memcpy(bytes, datagram->bytes, datagram->n_bytes);
        r = proto_decode(bytes, datagram->n_bytes, datagram->n_fds, sender, &frame, &reason);
        FUZZ_EXPECT(r == 0 || r == GPUMEM_E_BAD_FRAME || r == GPUMEM_E_UNKNOWN_KIND);
        FUZZ_EXPECT((r == GPUMEM_E_BAD_FRAME) == (reason.what != NULL));
        if (r)
                return FUZZ_REFUSED;
        expect_texts(&frame);
        expect_refusal(&frame);
        expect_same(datagram, &frame);
        return FUZZ_TAKEN;
}

static void read_rows(struct input *input)
{
        static const struct row_list *const lists[] = {&client_row_list, &block_row_list,
                                                       &tenant_row_list, &event_row_list};
        const struct row_list *list = lists[input_below(input, ARRAY_SIZE(lists))];
        uint8_t row[sizeof(struct event_row)];
        char text[64];

        input_take(input, row, list->n_row_bytes);
        for (unsigned i = 0; i < list->n_fields; i++) {
                const struct row_field *field = &list->fields[i];
                uint64_t value;

                if (field->type == ROW_TYPE_TEXT)
                        continue;
                value = row_value(field, row);
                FUZZ_EXPECT(listed_client_name(value) && listed_block_name(value));
                FUZZ_EXPECT(listed_event_name(value) && listed_reason_name(value));
        }
        input_take(input, text, sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        proto_put_text((char *)row, sizeof(text) / 2, text);
        expect_text((char *)row, sizeof(text) / 2);
        proto_put_name((char *)row, sizeof(text) / 2, text);
        expect_name((char *)row, sizeof(text) / 2);
        (void)proto_error_text(input_byte(input));
}

enum fuzz_outcome fuzz_run(const uint8_t *bytes, size_t n_bytes)
{
        struct input input = {bytes, n_bytes};
        enum proto_sender sender = input_below(&input, 2) ? FROM_DAEMON : FROM_CLIENT;
        struct datagram datagram;
        enum fuzz_outcome outcome;

        datagram_read(&input, sender, &datagram);
        outcome = decode(&datagram, sender);
        if (input.n)
                read_rows(&input);
        return outcome;
}
