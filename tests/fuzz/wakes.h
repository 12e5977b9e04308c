/* SPDX-License-Identifier: Apache-2.0 */
/* That the server learns of all its connections wait for: of each the loop is to tell, or it is looked at from time to
 * time. */
#pragma once

#include "daemon/server/core/server_state.h"

/* To be asked between the loop's turns. */
void wakes_check(struct server *server);

/* Of what has been said to it, nothing is left unread, none of its answers waits, and no client is looked at. */
void wakes_expect_all_served(const struct server *server);
