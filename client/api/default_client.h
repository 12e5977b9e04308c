/* SPDX-License-Identifier: Apache-2.0 */
/* The default client: used by calls that pass NULL as client. Each process has one, connected at the first such call
 * and never disconnected. A forked child has one of its own. Any thread. */
#pragma once

#include "client/api/client.h"

/* Connects it, if there is none yet; errors as gpumem_connect. */
int default_client_get(struct gpumem_client **ret_client);

/* NULL: there is none, or it belongs to the parent process. */
struct gpumem_client *default_client_present(void);

/* Begins a public call: NULL becomes the default client. GPUMEM_E_FORKED in a child of the process that connected; or
 * the error of the default client's connect. */
static ALWAYS_INLINE int client_enter(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                return default_client_get(client);
        return fork_guard_check(&(*client)->fork_guard);
}

/* The same for calls about existing memory, which do not connect: without a default client the process has no memory
 * of it, GPUMEM_E_NOT_OURS. */
static ALWAYS_INLINE int client_enter_present(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                *client = default_client_present();
        return *client ? fork_guard_check(&(*client)->fork_guard) : GPUMEM_E_NOT_OURS;
}
