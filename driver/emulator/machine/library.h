/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver as a loaded library, in which its exports are looked up by name. */
#pragma once

/* For dlsym; it stays open. NULL: this code is in no library. */
void *library_self(void);
