/* SPDX-License-Identifier: Apache-2.0 */
#include "base/printable.h"

#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* Characters from `first` to `last`. */
struct range {
        uint32_t first, last;
};

/* Not to be shown, beside C0 and DEL. Surrogates are no characters of UTF-8 at all. */
static const struct range hidden[] = {
        {0x0080, 0x009f},    /* C1 */
        {0x00ad, 0x00ad},    /* soft hyphen */
        {0x034f, 0x034f},    /* grapheme joiner */
        {0x061c, 0x061c},    /* a mark of direction */
        {0x115f, 0x1160},    /* fillers */
        {0x17b4, 0x17b5},    /* vowels without width */
        {0x180b, 0x180f},    /* selectors of variations, a separator */
        {0x2000, 0x200f},    /* blanks, joiners, marks of direction */
        {0x2028, 0x202f},    /* separators, embeddings and overrides of direction */
        {0x205f, 0x206f},    /* blanks, invisible operators, isolates of direction */
        {0x3164, 0x3164},    /* filler */
        {0xe000, 0xf8ff},    /* private use */
        {0xfdd0, 0xfdef},    /* no characters */
        {0xfe00, 0xfe0f},    /* selectors of variations */
        {0xfeff, 0xfeff},    /* byte order mark */
        {0xffa0, 0xffa0},    /* filler */
        {0xfff0, 0xffff},    /* annotations, the replacement, no characters */
        {0x1bca0, 0x1bca3},  /* of shorthand */
        {0x1d173, 0x1d17a},  /* of music */
        {0xe0000, 0x10ffff}, /* tags, selectors of variations, private use */
};

static bool is_in(uint32_t character, const struct range *ranges, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                if (character >= ranges[i].first && character <= ranges[i].last)
                        return true;
        }
        return false;
}

/* Bytes of the character that begins with this byte; 0: none does. */
static size_t length_of(unsigned char first)
{
        if (first < 0x80)
                return 1;
        if (first >= 0xc2 && first <= 0xdf)
                return 2;
        if (first >= 0xe0 && first <= 0xef)
                return 3;
        return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Returns the bytes of the character that stands first, at most n_bytes; 0: none does. */
static size_t read_character(const char *text, size_t n_bytes, uint32_t *ret_character)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        size_t n = n_bytes ? length_of((unsigned char)*text) : 0;
        uint32_t character;

        if (n == 0 || n > n_bytes)
                return 0;
        character = (unsigned char)*text & (n == 1 ? 0x7f : 0x7fU >> n);
        for (size_t i = 1; i < n; i++) {
                if (((unsigned char)text[i] & 0xc0) != 0x80)
                        return 0;
                character = character << 6 | ((unsigned char)text[i] & 0x3f);
        }
        if (character < least[n] || character > 0x10ffff ||
            (character >= 0xd800 && character <= 0xdfff))
                return 0;
        *ret_character = character;
        return n;
}

static bool is_shown(uint32_t character)
{
        if (character < 0x80)
                return character >= 0x20 && character < 0x7f;
        /* The last two of each plane are no characters. */
        return (character & 0xfffe) != 0xfffe && !is_in(character, hidden, ARRAY_SIZE(hidden));
}

bool printable_is(const char *text, size_t n_bytes)
{
        uint32_t character;
        size_t n;

        for (size_t i = 0; i < n_bytes; i += n) {
                n = read_character(text + i, n_bytes - i, &character);
                if (!n || !is_shown(character))
                        return false;
        }
        return true;
}

void printable_copy(char *to, size_t n_to, const char *from, size_t n_from, enum printable kept)
{
        size_t n_text = strnlen(from, n_from), at = 0;

        for (size_t i = 0; i < n_text;) {
                uint32_t character;
                size_t n = read_character(from + i, n_text - i, &character);
                bool stays = n && is_shown(character) && (n == 1 || kept == PRINTABLE_UTF8);
                size_t n_put = stays ? n : 1;

                if (at + n_put >= n_to)
                        break;
                if (stays)
                        memmove(to + at, from + i, n);
                else
                        to[at] = '?';
                at += n_put;
                i += n ? n : 1;
        }
        memset(to + at, 0, n_to - at);
}
