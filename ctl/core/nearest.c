/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/core/nearest.h"

#include <stddef.h>
#include <string.h>

/* An end that is missing counts from so many letters on. */
#define BEGINNING_MIN 3

static unsigned least(unsigned a, unsigned b)
{
        return a < b ? a : b;
}

unsigned nearest_distance(const char *a, const char *b)
{
        /* rows[i % 3][j]: from the first i letters of a to the first j of b. */
        unsigned rows[3][NEAREST_WORD_MAX];
        size_t n_a = strlen(a), n_b = strlen(b);

        if (n_a >= NEAREST_WORD_MAX || n_b >= NEAREST_WORD_MAX)
                return NEAREST_WORD_MAX;
        for (size_t i = 0; i <= n_a; i++) {
                unsigned *row = rows[i % 3];
                const unsigned *before = rows[(i + 2) % 3], *before_that = rows[(i + 1) % 3];

                for (size_t j = 0; j <= n_b; j++) {
                        row[j] = (unsigned)(i + j);
                        if (!i || !j)
                                continue;
                        row[j] = least(least(before[j], row[j - 1]) + 1,
                                       before[j - 1] + (a[i - 1] != b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                row[j] = least(row[j], before_that[j - 2] + 1);
                }
        }
        return rows[n_a % 3][n_b];
}

const char *nearest_word(const char *word, const char *const *words)
{
        size_t n_letters = strlen(word);
        unsigned allowed = n_letters < 3 ? 1 : (unsigned)(n_letters / 3);
        unsigned nearest = allowed + 1, n_wrong_of_nearest = 0;
        const char *found = NULL;

        for (; *words; words++) {
                unsigned n_wrong = nearest_distance(word, *words), distance = n_wrong;

                if (distance && n_letters >= BEGINNING_MIN && strncmp(*words, word, n_letters) == 0)
                        distance = 1;
                if (distance > nearest || (distance == nearest && n_wrong >= n_wrong_of_nearest))
                        continue;
                nearest = distance;
                n_wrong_of_nearest = n_wrong;
                found = *words;
        }
        return found;
}
