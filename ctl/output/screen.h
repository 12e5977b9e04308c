/* SPDX-License-Identifier: Apache-2.0 */
/* How large the terminal is that standard output is. */
#pragma once

/* In characters; what is given instead where standard output is no terminal, or one that does not say. */
unsigned screen_width(unsigned otherwise);
unsigned screen_lines(unsigned otherwise);
