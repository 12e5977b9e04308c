/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_stream_register, gpumem_stream_unregister and gpumem_stream_wait. */
#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "driver/event.h"

/* Refuses the per-thread default stream: its handle means another stream in each thread, so no other thread could
 * mark it. */
static int enter(struct gpumem_client **client, void *stream, struct stream_key *ret_key)
{
        int ordinal, r = client_enter(client);

        if (!r && !(*client)->has_cuda)
                r = GPUMEM_E_NO_DRIVER;
        if (!r && stream == CU_STREAM_PER_THREAD)
                r = GPUMEM_E_UNSUPPORTED;
        if (r)
                return r;
        r = stream_identify(&(*client)->cuda, stream, ret_key, &ordinal);
        return r == GPUMEM_E_UNSUPPORTED ? GPUMEM_E_CAPTURES : r;
}

int gpumem_stream_register(struct gpumem_client *client, void *stream)
{
        struct stream_key key;
        int r = enter(&client, stream, &key);

        if (!r)
                r = streams_register(&client->streams, stream, &key);
        if (!r)
                client_settle(client);
        return r;
}

int gpumem_stream_wait(struct gpumem_client *client, void *stream, void *producer)
{
        int r = client_enter(&client);

        if (r)
                return r;
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        return stream == producer ? 0 : event_order(&client->cuda, stream, producer);
}

static int unregister(struct gpumem_client *client, const struct stream_key *key)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        return streams_unregister(&client->streams, key);
}

int gpumem_stream_unregister(struct gpumem_client *client, void *stream)
{
        struct stream_key key;
        int r = enter(&client, stream, &key);

        if (!r)
                r = unregister(client, &key);
        if (!r)
                client_settle(client);
        return r;
}
