/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/datagram.h"

#include "base/err.h"
#include "base/printable.h"

enum rule { RULE_ANY, RULE_RANGE, RULE_MASK };

/* The rules of messages.def, written down a second time: not what the decoder makes of them. */
#define ANY              RULE_ANY, 0, 0
#define ZERO             RULE_RANGE, 0, 0
#define RANGE(low, high) RULE_RANGE, (low), (high)
#define MASK(bits)       RULE_MASK, (bits), 0

static uint64_t mend(uint64_t value, enum rule rule, uint64_t low, uint64_t high)
{
        if (rule == RULE_MASK)
                return value & low;
        if (rule == RULE_RANGE && (value < low || value > high))
                return low + (high > low ? value % (high - low) : 0);
        return value;
}

static void mend_text(char *text, size_t n_bytes)
{
        size_t n = 0;

        while (n + 1 < n_bytes && text[n]) {
                text[n] = (char)(0x20 + (unsigned char)text[n] % 0x5f);
                n++;
        }
        memset(text + n, 0, n_bytes - n);
}

static void mend_name(char *name, size_t n_bytes)
{
        printable_copy(name, n_bytes, name, n_bytes, PRINTABLE_UTF8);
}

/* Whether there is such a message. */
static bool mend_fields(struct frame *frame)
{
        switch (frame->kind) {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        case code: {                                              \
                struct message_##name *message = &frame->name;    \
                (void)message;
#define U32(field, rule, text)     message->field = (uint32_t)mend(message->field, rule);
#define U64(field, rule, text)     message->field = mend(message->field, rule);
#define TEXT(field, n_bytes, text) mend_text(message->field, n_bytes);
#define UTF8(field, n_bytes, text) mend_name(message->field, n_bytes);
#define END_MESSAGE(NAME, name, n_bytes) \
        return true;                     \
        }
#include "proto/messages.def"
#include "proto/messages_undef.h"
        default:
                return false;
        }
}

struct shape {
        enum message_kind kind;
        enum proto_sender sender;
        unsigned fds_min;
        size_t n_bytes;
};

static const struct shape shapes[] = {
#define MESSAGE(NAME, name, code, sender, fds_min, fds_max, text) \
        {MESSAGE_##NAME, sender, fds_min, sizeof(struct message_##name)},
#define U32(field, rule, text)
#define U64(field, rule, text)
#define TEXT(field, n_bytes, text)
#define UTF8(field, n_bytes, text)
#define END_MESSAGE(NAME, name, n_bytes)
#include "proto/messages.def"
#include "proto/messages_undef.h"
};

struct frame *datagram_frame(struct datagram *datagram)
{
        return (struct frame *)(void *)datagram->bytes;
}

static void begin(const struct shape *shape, struct datagram *datagram)
{
        struct frame *frame = datagram_frame(datagram);

        datagram->n_bytes = FRAME_HEADER_BYTES + shape->n_bytes;
        datagram->n_fds = shape->fds_min;
        frame->n_bytes = (uint32_t)datagram->n_bytes;
        frame->kind = (uint16_t)shape->kind;
        frame->n_fds = (uint16_t)shape->fds_min;
}

static void take_fields(struct input *input, size_t n_bytes, struct frame *frame)
{
        size_t n = input_byte(input);

        input_take(input, &frame->hello, n < n_bytes ? n : n_bytes);
}

void datagram_fill(struct input *input, enum message_kind kind, struct datagram *ret_datagram)
{
        unsigned i = 0;

        while (shapes[i].kind != kind)
                i++;
        *ret_datagram = (struct datagram){.n_fds = 0};
        begin(&shapes[i], ret_datagram);
        take_fields(input, shapes[i].n_bytes, datagram_frame(ret_datagram));
        FUZZ_EXPECT(mend_fields(datagram_frame(ret_datagram)));
}

/* One thing that the header says, or that is so, is another. */
static void spoil(struct input *input, struct datagram *datagram)
{
        struct frame *frame = datagram_frame(datagram);

        switch (input_below(input, 6)) {
        case 0:
                frame->n_bytes = (uint32_t)input_u64(input);
                break;
        case 1:
                frame->kind = (uint16_t)input_u64(input);
                break;
        case 2:
                frame->n_fds = input_byte(input);
                break;
        case 3:
                frame->flags = input_byte(input);
                break;
        case 4:
                datagram->n_fds = input_below(input, 6);
                frame->n_fds = (uint16_t)datagram->n_fds;
                break;
        default:
                datagram->n_bytes = input_u64(input) % (DATAGRAM_BYTES_MAX + 1);
                frame->n_bytes = (uint32_t)datagram->n_bytes;
                break;
        }
}

static void read_raw(struct input *input, struct datagram *datagram)
{
        datagram->n_fds = input_below(input, 6);
        datagram->n_bytes = input_u64(input) % (DATAGRAM_BYTES_MAX + 1);
        input_take(input, datagram->bytes, datagram->n_bytes);
}

void datagram_read(struct input *input, enum proto_sender sender, struct datagram *ret_datagram)
{
        uint8_t how = input_byte(input);
        const struct shape *shape = &shapes[input_below(input, ARRAY_SIZE(shapes))];
        struct frame *frame;

        *ret_datagram = (struct datagram){.n_fds = 0};
        frame = datagram_frame(ret_datagram);
        if (how % 16 == 0) {
                read_raw(input, ret_datagram);
                return;
        }
        /* The other side's are refused for that alone. */
        while (how % 16 > 1 && shape->sender != sender)
                shape = &shapes[((size_t)(shape - shapes) + 1) % ARRAY_SIZE(shapes)];
        begin(shape, ret_datagram);
        frame->serial = input_byte(input);
        take_fields(input, shape->n_bytes, frame);
        if (how % 16 > 3)
                FUZZ_EXPECT(mend_fields(frame));
        if (how / 16 == 0)
                spoil(input, ret_datagram);
}
