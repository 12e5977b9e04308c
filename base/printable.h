/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others, made fit to be shown: UTF-8 whose characters a terminal draws and does not obey. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Which characters stay. PRINTABLE_ASCII is for what is read as bytes, and for terminals that do not know UTF-8: to
 * them its bytes from 0x80 to 0x9f are control characters. */
enum printable { PRINTABLE_ASCII, PRINTABLE_UTF8 };

/* Whether it is UTF-8 and every character is printable. Not so are control characters, also U+0080 to U+009F, and what
 * is not seen or moves others: marks of direction, separators of lines, characters without width but for accents. */
bool printable_is(const char *text, size_t n_bytes);

/* Copies the text, which ends at a zero or after n_from bytes, into n_to bytes: with one '?' for each character that does
 * not stay and each byte that begins none, cut before a character that does not fit, and zero to the end. Both may be one text. */
void printable_copy(char *to, size_t n_to, const char *from, size_t n_from, enum printable kept);
