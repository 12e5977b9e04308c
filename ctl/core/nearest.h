/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": which of the words that are allowed a mistyped one stands for. Pure. */
#pragma once

/* Words are compared up to this length; a longer one is like no other. */
#define NEAREST_WORD_MAX 32

/* How many letters have to be added, left out, changed or swapped with their neighbour to make one word of the other;
 * NEAREST_WORD_MAX if one of them is too long. */
unsigned nearest_distance(const char *a, const char *b);

/* The first of those that `word` is closest to: one letter in three may be wrong, or the end may be missing, of which
 * the shortest end is the closest. NULL: it is like none of them. The last of the words is NULL. */
const char *nearest_word(const char *word, const char *const *words);
