/* SPDX-License-Identifier: Apache-2.0 */
/* What the entry points of all frameworks do alike. They use the default client, since two clients of a process
 * cannot free each other's memory. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Device memory for use in the order of `stream`, whatever context is current. As gpumem_alloc. */
int adapter_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer);

/* In the order of `stream`, if it is of the memory's context or can be asked; else in that of the memory's own. */
void adapter_free(void *pointer, void *stream);

/* In the order of the memory's own stream. */
void adapter_free_in_order(void *pointer);

/* A call of a framework's that cannot say so has failed. */
void adapter_count_failure(void);

/* Throws std::runtime_error, with the text that says why the thread's last allocation gave `code`. Returns only where
 * the process has no C++ library. To be called with nothing to clean up. */
void adapter_throw(int code, size_t n_bytes, int device);
