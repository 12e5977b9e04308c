/* SPDX-License-Identifier: Apache-2.0 */
/* Mistyped words, and what they stand for. */
#include "ctl/core/nearest.h"

#include <stddef.h>

#include "tests/suite.h"

static const char *const words[] = {"status",  "top",    "stats",       "clients", "blocks",
                                    "tenants", "limits", "reset-peaks", "reclaim", NULL};

static void expect_nearest(const char *word, const char *wanted)
{
        const char *found = nearest_word(word, words);

        if (wanted)
                ck_assert_ptr_nonnull(found);
        ck_assert_pstr_eq(found, wanted);
}

TEST(a_distance_counts_letters)
{
        ck_assert_uint_eq(nearest_distance("stats", "stats"), 0);
        ck_assert_uint_eq(nearest_distance("", "top"), 3);
        ck_assert_uint_eq(nearest_distance("stats", "stat"), 1);
        ck_assert_uint_eq(nearest_distance("stats", "sttats"), 1);
        ck_assert_uint_eq(nearest_distance("stats", "stots"), 1);
        ck_assert_uint_eq(nearest_distance("stats", "satts"), 1);
        ck_assert_uint_eq(nearest_distance("kitten", "sitting"), 3);
}

TEST(a_distance_is_the_same_both_ways)
{
        for (unsigned i = 0; words[i]; i++) {
                for (unsigned j = 0; words[j]; j++)
                        ck_assert_uint_eq(nearest_distance(words[i], words[j]),
                                          nearest_distance(words[j], words[i]));
        }
}

TEST(the_nearest_word_is_found)
{
        expect_nearest("stast", "stats");
        expect_nearest("sttats", "stats");
        expect_nearest("client", "clients");
        expect_nearest("tennants", "tenants");
        expect_nearest("limist", "limits");
        expect_nearest("tpo", "top");
        expect_nearest("resetpeaks", "reset-peaks");
}

TEST(a_beginning_stands_for_its_word)
{
        expect_nearest("res", "reset-peaks");
        expect_nearest("rec", "reclaim");
        expect_nearest("re", NULL);
        expect_nearest("stat", "stats");
        expect_nearest("statu", "status");
}

TEST(a_word_like_no_other_has_none)
{
        expect_nearest("dance", NULL);
        expect_nearest("", NULL);
        expect_nearest("statistics-of-everything-there-is-today", NULL);
        expect_nearest("x", NULL);
}

TESTS_MAIN("nearest")
