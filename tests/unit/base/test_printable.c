/* SPDX-License-Identifier: Apache-2.0 */
/* What of others' text is shown. */
#include "base/printable.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/suite.h"

#define NAME "M\xc3\xbcller \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80"

static void expect_copy(const char *text, enum printable kept, const char *wanted)
{
        char made[64];

        memset(made, 'x', sizeof(made));
        printable_copy(made, sizeof(made), text, SIZE_MAX, kept);
        ck_assert_str_eq(made, wanted);
        for (size_t i = strlen(made); i < sizeof(made); i++)
                ck_assert_int_eq(made[i], 0);
}

TEST(characters_of_any_script_stay)
{
        ck_assert(printable_is(NAME, strlen(NAME)));
        expect_copy(NAME, PRINTABLE_UTF8, NAME);
        expect_copy(NAME, PRINTABLE_ASCII, "M?ller ?? ?");
        expect_copy("", PRINTABLE_UTF8, "");
        expect_copy(" ~", PRINTABLE_ASCII, " ~");
}

/* Each is a character, and one '?'. */
TEST(what_a_terminal_obeys_does_not_stay)
{
        static const char *const hostile[] = {
                "\033",         "\n",
                "\r",           "\x7f",
                "\x01",         "\xc2\x80",
                "\xc2\x9b",     "\xc2\x9f",
                "\xc2\xad",     "\xe2\x80\x8b",
                "\xe2\x80\x8e", "\xe2\x80\xa8",
                "\xe2\x80\xa9", "\xe2\x80\xaa",
                "\xe2\x80\xae", "\xe2\x81\xa6",
                "\xe2\x81\xa9", "\xef\xbb\xbf",
                "\xee\x80\x80", "\xef\xbf\xbe",
                "\xd8\x9c",     "\xf3\xa0\x80\x81",
        };

        for (unsigned i = 0; i < ARRAY_SIZE(hostile); i++) {
                char text[16];

                ck_assert(!printable_is(hostile[i], strlen(hostile[i])));
                (void)snprintf(text, sizeof(text), "a%s[31m", hostile[i]);
                expect_copy(text, PRINTABLE_UTF8, "a?[31m");
                expect_copy(text, PRINTABLE_ASCII, "a?[31m");
        }
}

/* Overlong forms, surrogates, what is beyond the last character, and what ends too early. */
TEST(bytes_that_are_no_utf8_are_one_mark_each)
{
        expect_copy("a\x9b"
                    "31m",
                    PRINTABLE_UTF8, "a?31m");
        expect_copy("\xc0\x9b", PRINTABLE_UTF8, "??");
        expect_copy("\xc1\xbf", PRINTABLE_UTF8, "??");
        expect_copy("\xe0\x82\x9b", PRINTABLE_UTF8, "???");
        expect_copy("\xf0\x80\x82\x9b", PRINTABLE_UTF8, "????");
        expect_copy("\xed\xa0\x80", PRINTABLE_UTF8, "???");
        expect_copy("\xf4\x90\x80\x80", PRINTABLE_UTF8, "????");
        expect_copy("\xf8\x88\x80\x80\x80", PRINTABLE_UTF8, "?????");
        expect_copy("\xe6\xbc", PRINTABLE_UTF8, "??");
        expect_copy("\xe6\xbc"
                    "a",
                    PRINTABLE_UTF8, "??a");
        expect_copy("\xff\xfe", PRINTABLE_UTF8, "??");
}

TEST(no_character_is_cut)
{
        char made[6];

        printable_copy(made, sizeof(made), "abcd\xc3\xbc", SIZE_MAX, PRINTABLE_UTF8);
        ck_assert_str_eq(made, "abcd");
        printable_copy(made, sizeof(made), "abc\xc3\xbc", SIZE_MAX, PRINTABLE_UTF8);
        ck_assert_str_eq(made, "abc\xc3\xbc");
        printable_copy(made, sizeof(made), "ab\xc3\xbc", 3, PRINTABLE_UTF8);
        ck_assert_str_eq(made, "ab?");
        printable_copy(made, 1, "ab", SIZE_MAX, PRINTABLE_UTF8);
        ck_assert_str_eq(made, "");
}

/* Whatever comes, the copy is printable, and its own copy. */
TEST(a_copy_of_noise_is_printable)
{
        unsigned seed = 1;

        for (unsigned round = 0; round < 20000; round++) {
                char noise[12], made[16], again[16];

                for (unsigned i = 0; i < sizeof(noise); i++)
                        noise[i] = (char)(rand_r(&seed) % 3 ? 0x80 + rand_r(&seed) % 0x80
                                                            : rand_r(&seed) % 0x80);
                printable_copy(made, sizeof(made), noise, sizeof(noise), PRINTABLE_UTF8);
                ck_assert(printable_is(made, strlen(made)));
                printable_copy(again, sizeof(again), made, SIZE_MAX, PRINTABLE_UTF8);
                ck_assert_str_eq(again, made);
        }
}

TESTS_MAIN("printable")
