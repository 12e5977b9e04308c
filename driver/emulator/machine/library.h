/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver as a library that is loaded: what it exports is looked up there, by name. */
#pragma once

/* For dlsym; it stays open. NULL: this code is in no library. */
void *library_self(void);
