/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/report.h"

#include <errno.h>

#include "base/clock.h"
#include "client/connection/reconnect.h"
#include "client/runtime/last_error.h"
#include "proto/proto.h"

/* Not wrong calls, and not an absent daemon. */
static bool is_of_memory(int code)
{
        if (code < 0)
                return code == -EIO || code == -ENOMEM || code == -ENODEV;
        return last_error_is_refusal(code) && code != GPUMEM_E_DISCONNECTED;
}

static bool is_time(struct gpumem_client *client)
{
        uint64_t now_ns = clock_now_ns(), last_ns = atomic_load(&client->reported_ns);

        return (!last_ns || now_ns - last_ns >= REPORT_NS) &&
               atomic_compare_exchange_strong(&client->reported_ns, &last_ns, now_ns);
}

static void tell(struct gpumem_client *client, int code, uint64_t n_bytes)
{
        struct reconnector *reconnector = client_reconnector(client);
        struct connection *connection = reconnect_present(reconnector);
        struct frame frame = FRAME_NULL;
        int r = 0;

        if (!connection)
                return;
        frame.failed.n_bytes = n_bytes;
        frame.failed.pool = last_error_pool();
        frame.failed.code = code > 0 ? (uint32_t)code : GPUMEM_E_DRIVER;
        proto_put_text(frame.failed.text, sizeof(frame.failed.text), last_error_text());
        if (connection->features & PROTO_FEATURE_REPORTS)
                r = link_send(connection->link, &frame, MESSAGE_FAILED);
        reconnect_release(reconnector, connection, r);
}

void report_keep(struct gpumem_client *client, int code, const struct gpumem_request *request)
{
        bool is_daemons = last_error_is_daemons(code);

        last_error_keep(client->number, code, request);
        if (!is_daemons && is_of_memory(code) && is_time(client))
                tell(client, code, request->n_bytes);
}
