/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem_stream_register, gpumem_stream_unregister and gpumem_stream_wait. */
#include <stdbool.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "driver/event.h"
#include "driver/stream.h"

/* The handle of the per-thread default stream means another stream in each thread, so no other thread could mark it. */
int client_enter_stream(struct gpumem_client **client, void *stream, struct stream_key *ret_key)
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
        int r = client_enter_stream(&client, stream, &key);

        if (!r)
                r = streams_register(&client->streams, stream, &key);
        if (!r)
                client_settle(client);
        return r;
}

static bool captures(const struct cuda *cuda, void *stream)
{
        return stream_is_created(stream) && stream_check(cuda, stream) == GPUMEM_E_UNSUPPORTED;
}

/* A stream that captures cannot wait for work outside of graphs: the driver would end its capture. */
int gpumem_stream_wait(struct gpumem_client *client, void *stream, void *producer)
{
        int r = client_enter(&client);

        if (r)
                return r;
        if (!client->has_cuda)
                return GPUMEM_E_NO_DRIVER;
        if (stream == producer)
                return 0;
        if (captures(&client->cuda, stream) && !captures(&client->cuda, producer))
                return GPUMEM_E_CAPTURES;
        return event_order(&client->cuda, stream, producer);
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
        int r = client_enter_stream(&client, stream, &key);

        if (!r)
                r = unregister(client, &key);
        if (!r)
                client_settle(client);
        return r;
}
