/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal that standard output is: how large it is, and which text of others it shows. One thread. */
#pragma once

#include <stddef.h>

/* In characters; what is given instead where standard output is no terminal, or one that does not say. */
unsigned screen_width(unsigned otherwise);
unsigned screen_lines(unsigned otherwise);

/* A text of others, which may lack its end, holds nothing after that that a terminal would carry out. Printable UTF-8
 * stays if the locale is of UTF-8, which main() has set. */
void screen_clean(char *text, size_t n_bytes);
