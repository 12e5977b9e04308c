/* gpumemd's library as one of the rivals. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "bench/peers/player.h"
#include "gpumem.h"

static const char *explain(int r)
{
        static char text[ROW_NOTE_MAX];
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};

        if (r > 0 && !gpumem_last_refusal(NULL, &refusal) && refusal.text[0]) {
                (void)snprintf(text, sizeof(text), "%.*s", ROW_NOTE_MAX - 1, refusal.text);
                return text;
        }
        return gpumem_strerror(r);
}

static int open_client(struct player *player)
{
        struct gpumem_options options = {.struct_size = sizeof(options),
                                         .socket_path = player->socket_path,
                                         .program = "gpumem-bench"};
        struct gpumem_client *client;
        int r = gpumem_connect(&options, &client);

        if (!r)
                player->self = client;
        return r;
}

/* What is empty is the next process's. */
static void close_client(struct player *player)
{
        gpumem_disconnect(player->self);
}

static inline __attribute__((always_inline)) int request(struct player *player,
                                                         enum gpumem_kind kind, unsigned stream,
                                                         uint64_t n_bytes, uint32_t wait_ms,
                                                         void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = kind,
                                         .place = kind == GPUMEM_PINNED ? GPUMEM_NEAREST : 0,
                                         .stream = player->stage.streams[stream],
                                         .n_bytes = n_bytes,
                                         .wait_ms = wait_ms};

        return gpumem_alloc(player->self, &request, ret_pointer);
}

static int alloc(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer)
{
        return request(player, GPUMEM_DEVICE, stream, n_bytes, 0, ret_pointer);
}

static int end(struct player *player, unsigned stream, void *pointer)
{
        return gpumem_free(player->self, pointer, player->stage.streams[stream]);
}

static int wait_for(struct player *player, uint64_t n_bytes, double seconds, void **ret_pointer)
{
        return request(player, GPUMEM_DEVICE, 0, n_bytes, (uint32_t)(seconds * 1000), ret_pointer);
}

static int drop(struct player *player)
{
        int r = gpumem_flush(player->self, NULL);

        return r ? r : gpumem_free_all_blocks(player->self, GPUMEM_SCOPE_TENANT, NULL);
}

static int pin(struct player *player, uint64_t n_bytes, void **ret_pointer)
{
        return request(player, GPUMEM_PINNED, 0, n_bytes, 0, ret_pointer);
}

static int unpin(struct player *player, void *pointer)
{
        return end(player, 0, pointer);
}

const struct allocator allocator_gpumemd = {
        .name = "gpumemd",
        .n_steps = 1024,
        .n_thread_steps = 8192,
        .open = open_client,
        .close = close_client,
        .alloc = alloc,
        .free = end,
        .wait = wait_for,
        .drop = drop,
        .pin = pin,
        .unpin = unpin,
        .explain = explain,
};
