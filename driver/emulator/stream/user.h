/* SPDX-License-Identifier: Apache-2.0 */
/* User objects: counted by the application, graphs and executables; when the last reference is released, the object's
 * destructor runs.
 *
 * The emulator's lock guards them. Destructors run without it: by user_destroy on the thread whose call has released
 * the object. If work on a stream came between, user_destroy_later runs them on a thread of the driver. Either way
 * they must not call CUDA. */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct user_object;

SLIST_HEAD(user_list, user_object);

/* The references that a graph or an executable has. */
struct holdings {
        struct holding *items;
        unsigned n;
};

/* May an application count by this number? */
bool user_is_count(unsigned count);

/* With the emulator's lock held. NULL: no such object. */
struct user_object *user_find(CUuserObject handle);
void user_ref(struct user_object *object, uint64_t n_refs);

/* With the emulator's lock held. The caller hands over these references. To release references that are not held is
 * no error. */
CUresult holdings_add(struct holdings *holdings, struct user_object *object, uint64_t n_refs);
void holdings_release(struct holdings *holdings, struct user_object *object, uint64_t n_refs,
                      struct user_list *dead);

/* With the emulator's lock held. CUDA_ERROR_OUT_OF_MEMORY leaves `ret_copy` empty. */
CUresult holdings_copy(const struct holdings *holdings, struct holdings *ret_copy);
void holdings_clear(struct holdings *holdings, struct user_list *dead);

void user_destroy(struct user_list *dead);
void user_destroy_later(struct user_list *dead);

/* Starts the thread that user_destroy_later needs, if it does not run yet. */
CUresult user_prepare_later(void);
