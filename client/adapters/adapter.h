/* SPDX-License-Identifier: Apache-2.0 */
/* What the entry points for all frameworks share. They use the default client, since two clients of a process cannot
 * free each other's memory. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Allocates device memory for use in the order of `stream`, whatever context is current. As gpumem_alloc. */
int adapter_alloc(size_t n_bytes, int device, void *stream, void **ret_pointer);

/* The two halves of it. A hit is served by the handle of a default stream, without waiting; else GPUMEM_E_REFUSED. */
int adapter_hit(size_t n_bytes, int device, void *stream, void **ret_pointer);
int adapter_alloc_missed(size_t n_bytes, int device, void *stream, void **ret_pointer);

/* The same with flags of gpumem_alloc. */
int adapter_alloc_with(uint32_t flags, size_t n_bytes, int device, void *stream,
                       void **ret_pointer);

/* Frees in the order of `stream`. Where that cannot be, in the order of the memory's own stream: no context is current,
 * the stream is gone, or it is a default stream beside a blocking one that captures. */
void adapter_free(void *pointer, int device, void *stream);

/* Frees in the order of the memory's own stream. */
void adapter_free_in_order(void *pointer);

/* The same for memory of the device's default stream, if its handle can free it at once; else GPUMEM_E_REFUSED, and
 * nothing is freed. */
int adapter_give(void *pointer, int device);

/* Counts the failure of a call that cannot report it to the framework. */
void adapter_count_failure(void);

/* Throws std::runtime_error, with the reason why the thread's last allocation gave `code`. Returns only if the
 * process has no C++ library. The caller must have nothing to clean up. A lack of memory is told to `tell` before, if
 * that is not NULL. */
typedef void adapter_tell(size_t n_bytes, const char *text);
void adapter_throw(int code, size_t n_bytes, int device, adapter_tell *tell);
