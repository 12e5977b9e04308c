/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics at intervals, on the caller's own thread. */
#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"

int gpumem_monitor_wait(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                        uint32_t period_ms, struct gpumem_stats *ret_stats)
{
        int r = client_enter(&client);

        /* What cannot be read is told now, not after the wait. */
        if (!r)
                r = gpumem_get_stats(client, kind, place, ret_stats);
        if (r)
                return r;
        client_listen(client);
        events_wait(client_events(client), period_ms);
        r = gpumem_get_stats(client, kind, place, ret_stats);
        client_settle(client);
        return r;
}

void gpumem_monitor_wake(struct gpumem_client *client)
{
        if (client_enter_present(&client) == 0)
                events_stir(client_events(client));
}
