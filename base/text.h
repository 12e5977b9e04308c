/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of /proc and /sys, read whole, and the figures in them. Any thread. */
#pragma once

#include <stdint.h>

/* The longest of these has about 4 KiB. */
#define TEXT_BYTES 16384

/* -ENOENT and the like; what is longer is cut. */
int text_read(const char *path, char ret_text[static TEXT_BYTES]);

/* The number after the word `key` and a ':' or ' '; 0 if it is not there. */
uint64_t text_figure(const char *text, const char *key);
