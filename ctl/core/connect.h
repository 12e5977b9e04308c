/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a command. One thread. */
#pragma once

#include "ctl/core/command.h"

/* A connection for a command, by its admin socket where the user may open that. Waits as --wait says.
 * GPUMEM_E_DISCONNECTED: no daemon listens. */
int connect_to_daemon(const struct arguments *arguments, struct link **ret_link);
