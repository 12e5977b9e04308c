/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and end of a client, and what it does for its daemon and in its service thread in between. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/log.h"
#include "client/api/client.h"
#include "client/blocks/client_limit.h"
#include "client/pool/idle_marking.h"
#include "client/pool/pool_rebinding.h"
#include "client/pool/empty_blocks.h"
#include "client/runtime/last_error.h"
#include "client/runtime/settings.h"
#include "client/watch/trace.h"

/* Without a driver the client serves pinned memory, as shared memory. */
static void load_driver(struct gpumem_client *client, const char *library)
{
        char reason[CUDA_REASON_MAX];

        client->has_cuda = cuda_load(library, &client->cuda, reason) == 0;
        if (!client->has_cuda)
                log_debug("pinned memory only: %s", reason);
}

static struct pool_set pool_set(struct gpumem_client *client)
{
        return (struct pool_set){.pools = client->pools,
                                 .n_pools = &client->n_pools,
                                 .cuda = client->has_cuda ? &client->cuda : NULL,
                                 .reconnector = &client->reconnector,
                                 .service = &client->service,
                                 .streams = &client->streams,
                                 .fraction = client->fraction,
                                 .n_limit_bytes = client->n_limit_bytes,
                                 .n_cache_bytes = &client->n_cache_bytes};
}

static uint64_t detach(void *owner)
{
        struct pool_set set = pool_set(owner);

        return pool_rebinding_detach(&set);
}

static int attach(void *owner, struct connection *connection)
{
        struct gpumem_client *client = owner;
        struct pool_set set = pool_set(client);

        return pool_rebinding_attach(&set, connection);
}

static void declare(void *owner)
{
        struct gpumem_client *client = owner;
        struct pool_set set = pool_set(client);

        pool_rebinding_declare(&set);
        service_thread_nudge(&client->service);
}

/* Never ended: for the life of the thread. */
static void begin_thread(void *owner)
{
        (void)client_spare_captures(owner);
}

/* The earlier of two times for a look; -1: none. */
static int earlier_ms(int a_ms, int b_ms)
{
        if (a_ms < 0 || b_ms < 0)
                return a_ms < 0 ? b_ms : a_ms;
        return a_ms < b_ms ? a_ms : b_ms;
}

static int look_at_pools(void *owner)
{
        struct gpumem_client *client = owner;
        enum idle_marking_urgency urgency = atomic_exchange(&client->is_urgent, false)
                                                    ? IDLE_MARKING_URGENT
                                                    : IDLE_MARKING_IN_TIME;
        int again_ms;

        client_end_deferred(client, false);
        graph_memory_end_gone(&client->graph_memory);
        again_ms = deferred_frees_none(&client->deferred) ? -1 : SERVICE_THREAD_SOON_MS;
        for (uint32_t i = 0; i < client->n_pools; i++)
                again_ms = earlier_ms(again_ms, idle_marking_look(&client->pools[i], urgency));
        return again_ms;
}

void client_look(struct gpumem_client *client)
{
        (void)look_at_pools(client);
}

/* The thread itself tells that the daemon has gone: an idle program makes no call that would, and the socket of a link
 * that is over would wake the thread again and again. The next connection nudges it. */
static int listen_to_daemon(void *owner, void **ret_held)
{
        struct gpumem_client *client = owner;
        struct connection *connection = reconnect_present(&client->reconnector);

        if (connection && link_is_dead(connection->link)) {
                reconnect_release(&client->reconnector, connection, GPUMEM_E_DISCONNECTED);
                connection = NULL;
        }
        *ret_held = connection;
        return connection ? link_socket(connection->link) : -1;
}

static void stop_listening(void *held)
{
        connection_unref(held);
}

static bool read_news(void *held)
{
        const struct connection *connection = held;

        return link_read_news(connection->link);
}

void client_listen(struct gpumem_client *client)
{
        struct connection *connection;

        if (service_thread_is_running(&client->service) || service_thread_wake(&client->service))
                return;
        connection = reconnect_present(&client->reconnector);
        if (!connection)
                return;
        (void)link_read_news(connection->link);
        connection_unref(connection);
}

static const struct service_thread_owner service_thread_owner = {
        begin_thread, look_at_pools, listen_to_daemon, stop_listening, read_news};

/* Finds the pool by the daemon's number, which another daemon may change. */
static void note_event(struct gpumem_client *client, const struct message_notice *notice)
{
        static const enum gpumem_event_kind kinds[] = {
                [PROTO_NOTICE_LOST] = GPUMEM_EVENT_DEVICE_LOST,
                [PROTO_NOTICE_BACK] = GPUMEM_EVENT_DEVICE_BACK,
                [PROTO_NOTICE_PRESSURE] = GPUMEM_EVENT_PRESSURE,
        };
        struct gpumem_event event = {.kind = kinds[notice->what]};

        for (uint32_t i = 0; i < client->n_pools; i++) {
                const struct pool *pool = &client->pools[i];

                if (__atomic_load_n(&pool->row.id, __ATOMIC_RELAXED) != notice->lease)
                        continue;
                event.memory = pool->memory.kind;
                event.place = pool_place(pool);
                events_note(&client->events, &event);
        }
}

static void take_notice(void *owner, const struct message_notice *notice)
{
        struct gpumem_client *client = owner;
        uint32_t what = notice->what;

        if (what == PROTO_NOTICE_LOST || what == PROTO_NOTICE_BACK || what == PROTO_NOTICE_PRESSURE)
                note_event(client, notice);
        if (what == PROTO_NOTICE_MARK || what == PROTO_NOTICE_PRESSURE)
                atomic_store(&client->is_urgent, true);
        for (uint32_t i = 0; what == PROTO_NOTICE_UNMAP && i < client->n_pools; i++)
                atomic_store(&client->pools[i].retained.is_recalled, true);
        service_thread_nudge(&client->service);
}

static const struct reconnect_owner reconnect_owner = {detach, attach, declare, take_notice};

/* Threads identify a client's refusals by this number. */
static int draw_number(uint64_t *ret_number)
{
        if (getrandom(ret_number, sizeof(*ret_number), 0) < 0)
                return err_errno();
        *ret_number |= 1; /* never LAST_ERROR_NO_CLIENT */
        return 0;
}

static int open_client(struct gpumem_client *client, const struct gpumem_options *options)
{
        const char *program = options->program ? options->program : program_invocation_short_name;
        uint64_t n_cache_bytes = UINT64_MAX;
        int r, setting = service_thread_init(&client->service, &service_thread_owner, client);
        int fence = streams_init(&client->streams, &client->after_call);
        int number = draw_number(&client->number);

        stream_uses_init(&client->uses);
        deferred_frees_init(&client->deferred, &client->uses, &client->after_call);
        recent_heaps_init(&client->recent);
        stream_handles_init(&client->handles);
        client->pools = calloc(PROTO_POOLS_MAX, sizeof(*client->pools));
        graph_memory_init(&client->graph_memory,
                          &(struct graph_memory_env){.cuda = &client->cuda,
                                                     .service = &client->service,
                                                     .frees = &client->capture_frees,
                                                     .pools = client->pools,
                                                     .n_pools = &client->n_pools});
        capture_frees_init(&client->capture_frees);
        debug_init(&client->debug);
        primary_contexts_init(&client->primaries);
        tags_init(&client->tags, client->number);
        r = client->pools ? setting : -ENOMEM;
        if (!r)
                r = fence;
        if (!r)
                r = number;
        if (!r)
                r = client_limit_read_fraction(&client->fraction);
        if (!r)
                r = settings_read_cache_size(&n_cache_bytes);
        client->n_cache_bytes = n_cache_bytes;
        if (!r)
                r = settings_read_limit(&client->n_limit_bytes);
        if (!r)
                r = debug_read_setting(&client->debug);
        if (!r)
                r = reconnect_init(&client->reconnector, options->socket_path, program,
                                   &client->events, &reconnect_owner, client);
        if (r)
                return r;
        r = fork_guard_init(&client->fork_guard);
        if (r)
                return r;
        load_driver(client, options->cuda_library);
        debug_open(&client->debug, &(struct debug_env){.cuda = client_cuda(client),
                                                       .pools = client->pools,
                                                       .n_pools = &client->n_pools,
                                                       .streams = &client->streams,
                                                       .uses = &client->uses});
        r = streams_open(&client->streams, client_cuda(client));
        return r ? r : attach(client, client->reconnector.connection);
}

static int refuse_struct(size_t struct_size, int r)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "struct_size is %zu; it must be sizeof(struct gpumem_options), here %zu, "
                       "and fields "
                       "that this library does not know must be 0",
                       struct_size, sizeof(struct gpumem_options));
        last_error_set(r, text);
        last_error_keep_of_connect(r);
        return r;
}

int gpumem_connect(const struct gpumem_options *options, struct gpumem_client **ret_client)
{
        struct gpumem_options ours = {.struct_size = sizeof(ours)};
        struct gpumem_client *client;
        int r = 0;

        if (options)
                r = take_struct(options, options->struct_size, &ours, sizeof(ours));
        if (r)
                return refuse_struct(options->struct_size, r);
        client = aligned_alloc(_Alignof(struct gpumem_client), sizeof(*client));
        if (!client)
                return -ENOMEM;
        memset(client, 0, sizeof(*client));
        settings_read_log();
        events_init(&client->events, &client->after_call);
        r = open_client(client, &ours);
        if (r) {
                last_error_keep_of_connect(r);
                gpumem_disconnect(client);
                return r;
        }
        trace_start();
        *ret_client = client;
        return 0;
}

/* Work in streams may still use freed memory, so this waits for it. */
static void wait_for_freed(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        if (client->n_pools)
                client_end_deferred(client, true);
        for (uint32_t i = 0; i < client->n_pools; i++)
                (void)empty_blocks_flush(&client->pools[i]);
}

static void end_pools(struct gpumem_client *client)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);

        deferred_frees_deinit(&client->deferred, &client->cuda);
        stream_uses_deinit(&client->uses, &client->cuda);
        debug_deinit(&client->debug);
        tags_deinit(&client->tags);
        for (uint32_t i = 0; i < client->n_pools; i++)
                pool_deinit(&client->pools[i]);
        capture_frees_deinit(&client->capture_frees);
        graph_memory_deinit(&client->graph_memory);
        streams_deinit(&client->streams);
        recent_heaps_deinit(&client->recent);
        stream_handles_deinit(&client->handles);
        primary_contexts_deinit(&client->primaries, client_cuda(client));
}

/* The default client stays until the process ends. In a forked child only the copy of the bookkeeping is the child's;
 * all else is the parent's. */
void gpumem_disconnect(struct gpumem_client *client)
{
        if (!client || client->is_default || events_in_callback())
                return;
        if (client->fork_guard.here && fork_guard_check(&client->fork_guard)) {
                recent_heaps_deinit(&client->recent);
                stream_handles_deinit(&client->handles);
                free(client->pools);
                free(client);
                return;
        }
        wait_for_freed(client);
        service_thread_deinit(&client->service);
        reconnect_stop_notices(&client->reconnector);
        if (trace_is_on())
                trace_disconnect(client);
        end_pools(client);
        fork_guard_deinit(&client->fork_guard);
        reconnect_deinit(&client->reconnector);
        /* Not earlier: notices, which use the pools, come until the connection is gone. */
        free(client->pools);
        events_deinit(&client->events);
        free(client);
}

const char *gpumem_version(void)
{
        return PROJECT_VERSION;
}
