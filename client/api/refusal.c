/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/refusal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/api/default_client.h"
#include "client/connection/reconnect.h"
#include "client/runtime/last_error.h"
#include "proto/messages.h"

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

        return (!last_ns || now_ns - last_ns >= REFUSAL_TELL_NS) &&
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

void refusal_keep(struct gpumem_client *client, int code, const struct gpumem_request *request)
{
        bool is_daemons = last_error_is_daemons(code);

        last_error_keep(client->number, code, request);
        if (!is_daemons && is_of_memory(code) && is_time(client))
                tell(client, code, request->n_bytes);
}

/* r != 0: there is none. */
static int give_refusal(int r, struct gpumem_refusal *refusal, struct gpumem_refusal *ret_refusal)
{
        size_t n_bytes = ret_refusal->struct_size;

        if (!r)
                r = check_struct(n_bytes, sizeof(*refusal));
        if (r)
                return r;
        refusal->struct_size = n_bytes;
        memcpy(ret_refusal, refusal, n_bytes);
        return 0;
}

/* Does not connect: if there is no default client, its connect may have failed, which is the refusal. */
int gpumem_last_refusal(struct gpumem_client *client, struct gpumem_refusal *ret_refusal)
{
        struct gpumem_refusal refusal;
        int r;

        if (!client)
                client = default_client_present();
        r = client ? client_enter(&client) : 0;
        if (!r)
                r = last_error_get(client ? client_number(client) : LAST_ERROR_NO_CLIENT, &refusal);
        return give_refusal(r, &refusal, ret_refusal);
}

int gpumem_connect_refusal(struct gpumem_refusal *ret_refusal)
{
        struct gpumem_refusal refusal;

        return give_refusal(last_error_get(LAST_ERROR_NO_CLIENT, &refusal), &refusal, ret_refusal);
}

int gpumem_set_event_callback(struct gpumem_client *client, gpumem_event_callback *callback,
                              void *argument)
{
        int r = client_enter(&client);

        if (!r)
                r = events_set(client_events(client), callback, argument);
        if (!r && callback)
                client_listen(client);
        return r;
}
