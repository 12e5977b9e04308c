/* SPDX-License-Identifier: Apache-2.0 */
/* The client that calls mean which name none: one a process, connected at the first such call, and never
 * disconnected. A forked child has one of its own. Any thread. */
#pragma once

#include "client/api/client.h"

/* What gpumem_connect gives, if there is none yet. */
int default_client_get(struct gpumem_client **ret_client);

/* NULL: there is none, or it is the parent process's. */
struct gpumem_client *default_client_present(void);

/* Begins a public call: NULL becomes the default client. GPUMEM_E_FORKED in a child of the process that connected;
 * or what the default client's connect gave. */
static ALWAYS_INLINE int client_enter(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                return default_client_get(client);
        return fork_guard_check(&(*client)->fork_guard);
}

/* The same for calls about memory that is there already, which connect to nothing: without a default client none of it
 * is the process's, GPUMEM_E_NOT_OURS. */
static ALWAYS_INLINE int client_enter_present(struct gpumem_client **client)
{
        if (__builtin_expect(!*client, 0))
                *client = default_client_present();
        return *client ? fork_guard_check(&(*client)->fork_guard) : GPUMEM_E_NOT_OURS;
}
