/* Values as Python reads them. */
#include "ctl/pickle.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/suite.h"

static void expect(json_t *take_value, const char *bytes, size_t n_bytes)
{
        char *text = NULL;
        size_t n_text;
        FILE *file = open_memstream(&text, &n_text);

        ck_assert_ptr_nonnull(take_value);
        ck_assert_ptr_nonnull(file);
        pickle_write(take_value, file);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_uint_eq(n_text, n_bytes);
        ck_assert_mem_eq(text, bytes, n_bytes);
        free(text);
        json_decref(take_value);
}

#define WHOLE(bytes)         "\x80\x02" bytes "."
#define EXPECT(value, bytes) expect(value, WHOLE(bytes), sizeof(WHOLE(bytes)) - 1)

START_TEST(integers_are_as_short_as_they_can_be)
{
        static const struct {
                int64_t value;
                const char *bytes;
                size_t n_bytes;
        } integers[] = {
#define INTEGER(value, bytes) {value, WHOLE(bytes), sizeof(WHOLE(bytes)) - 1}
                INTEGER(0, "K\0"),
                INTEGER(255, "K\xff"),
                INTEGER(256, "M\0\x01"),
                INTEGER(65535, "M\xff\xff"),
                INTEGER(65536, "J\0\0\x01\0"),
                INTEGER(-1, "J\xff\xff\xff\xff"),
                INTEGER(INT32_MAX, "J\xff\xff\xff\x7f"),
                INTEGER(INT32_MIN, "J\0\0\0\x80"),
                INTEGER(INT64_C(2147483648), "\x8a\x08\0\0\0\x80\0\0\0\0"),
                INTEGER(INT64_C(-2147483649), "\x8a\x08\xff\xff\xff\x7f\xff\xff\xff\xff"),
                INTEGER(INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
#undef INTEGER
        };

        for (unsigned i = 0; i < ARRAY_SIZE(integers); i++)
                expect(json_integer(integers[i].value), integers[i].bytes, integers[i].n_bytes);
}
END_TEST

START_TEST(each_type_has_its_opcode)
{
        EXPECT(json_null(), "N");
        EXPECT(json_true(), "\x88");
        EXPECT(json_false(), "\x89");
        EXPECT(json_real(1.5), "G\x3f\xf8\0\0\0\0\0\0");
        EXPECT(json_string(""), "X\0\0\0\0");
        EXPECT(json_string("a\xc3\xa4"), "X\x03\0\0\0a\xc3\xa4");
        EXPECT(json_stringn("a\0b", 3), "X\x03\0\0\0a\0b");
}
END_TEST

START_TEST(what_holds_others_may_be_empty_or_deep)
{
        EXPECT(json_array(), "]");
        EXPECT(json_object(), "}(u");
        EXPECT(json_pack("[i, [i]]", 1, 2), "]K\x01"
                                            "a]K\x02"
                                            "aa");
        EXPECT(json_pack("{s:i, s:{}}", "x", 1, "y"), "}(X\x01\0\0\0xK\x01X\x01\0\0\0y}(uu");
}
END_TEST

int main(void)
{
        Suite *suite = suite_create("pickle");
        TCase *tests = tcase_create("pickle");

        tcase_add_test(tests, integers_are_as_short_as_they_can_be);
        tcase_add_test(tests, each_type_has_its_opcode);
        tcase_add_test(tests, what_holds_others_may_be_empty_or_deep);
        suite_add_tcase(suite, tests);
        return run_suite(suite);
}
