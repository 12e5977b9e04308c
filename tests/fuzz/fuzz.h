/* SPDX-License-Identifier: Apache-2.0 */
/* A target takes any bytes and does with them what the daemon or a client does with a stranger's: it ends
 * the process when a promise is broken, and otherwise says whether the bytes got past the first check.
 *
 * Each target is a file and a program. libfuzzer.c runs it for clang's fuzzer; replay.c runs it over a
 * corpus and some thousand changes of that, with any compiler. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fuzz_outcome { FUZZ_REFUSED, FUZZ_TAKEN };

/* Where every second input is refused at once, little is learnt of what comes behind that. */
#define FUZZ_TAKEN_PERCENT_MIN 30

/* The target's own. */
extern const char fuzz_name[];
enum fuzz_outcome fuzz_run(const uint8_t *bytes, size_t n_bytes);

#define FUZZ_EXPECT(condition)                                                                \
        do {                                                                                  \
                if (!(condition)) {                                                           \
                        (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
                        abort();                                                              \
                }                                                                             \
        } while (0)

/* The bytes as a target reads them: decisions and numbers, one after another; 0 when none are left. */
struct input {
        const uint8_t *bytes;
        size_t n;
};

static inline void input_take(struct input *input, void *to, size_t n_bytes)
{
        size_t n = n_bytes < input->n ? n_bytes : input->n;

        memset(to, 0, n_bytes);
        if (n)
                memcpy(to, input->bytes, n);
        input->bytes += n;
        input->n -= n;
}

static inline uint8_t input_byte(struct input *input)
{
        uint8_t byte;

        input_take(input, &byte, sizeof(byte));
        return byte;
}

static inline uint64_t input_u64(struct input *input)
{
        uint64_t number;

        input_take(input, &number, sizeof(number));
        return number;
}

static inline unsigned input_below(struct input *input, unsigned n)
{
        return input_byte(input) % n;
}
