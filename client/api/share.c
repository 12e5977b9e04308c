/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions about sharing, and the text form of a token. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/default_client.h"
#include "client/pool/shared_alloc.h"
#include "client/runtime/last_error.h"
#include "driver/stream.h"
#include "gpumem.h"

#define UID_NONE UINT32_MAX

static int find(struct gpumem_client *client, const void *pointer, struct pool **ret_pool,
                struct shared_alloc_info *ret_info)
{
        struct pool *pool;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (shared_alloc_find(pool, pointer, ret_info) == 0) {
                        *ret_pool = pool;
                        return 0;
                }
        }
        return GPUMEM_E_NOT_OURS;
}

/* Is it an ordinary allocation in a heap? */
static bool is_in_heap(struct gpumem_client *client, const void *pointer)
{
        struct pool *pool;

        for (uint32_t i = 0; (pool = client_pool(client, i)); i++) {
                if (pool_find(pool, pointer) == 0)
                        return true;
        }
        return false;
}

static int refuse_keep_ms(uint32_t keep_ms)
{
        char text[64];

        (void)snprintf(text, sizeof(text), "keep_ms is %u; allowed are 0 to %u", (unsigned)keep_ms,
                       (unsigned)PROTO_SHARE_KEEP_MS_MAX);
        last_error_set(GPUMEM_E_BAD_REQUEST, text);
        return GPUMEM_E_BAD_REQUEST;
}

static int refuse_flags(uint32_t flags)
{
        char text[GPUMEM_TEXT_BYTES];

        (void)snprintf(text, sizeof(text),
                       "flags are 0x%x; allowed are GPUMEM_SHARE_GRANT (%u), or 0", (unsigned)flags,
                       (unsigned)GPUMEM_SHARE_GRANT);
        last_error_set(GPUMEM_E_UNSUPPORTED, text);
        return GPUMEM_E_UNSUPPORTED;
}

static int check_options(const struct gpumem_share_options *options)
{
        if (options->keep_ms > PROTO_SHARE_KEEP_MS_MAX)
                return refuse_keep_ms(options->keep_ms);
        if (options->flags & ~GPUMEM_SHARE_GRANT)
                return refuse_flags(options->flags);
        if (!options->flags || options->uid != UID_NONE)
                return 0;
        last_error_set(GPUMEM_E_BAD_REQUEST, "uid is -1, which no user has; allowed is any other");
        return GPUMEM_E_BAD_REQUEST;
}

static int take_options(const struct gpumem_share_options *theirs,
                        struct gpumem_share_options *ours)
{
        int r = take_struct(theirs, theirs->struct_size, ours, sizeof(*ours));
        char text[GPUMEM_TEXT_BYTES];

        if (!r)
                return check_options(ours);
        (void)snprintf(
                text, sizeof(text),
                "struct_size is %zu; it must be sizeof(struct gpumem_share_options), here %zu, and "
                "fields that this library does not know must be 0",
                theirs->struct_size, sizeof(*ours));
        last_error_set(r, text);
        return r;
}

/* Fills in SHARE or SHARE_KEPT, which differ only in the time. */
static enum message_kind fill(const struct shared_alloc_info *info,
                              const struct gpumem_share_options *options, struct frame *request)
{
        uint32_t uid = options->flags & GPUMEM_SHARE_GRANT ? options->uid : 0;
        uint32_t flags = options->flags & GPUMEM_SHARE_GRANT ? PROTO_SHARE_GRANT : 0;

        if (options->keep_ms) {
                request->share_kept = (struct message_share_kept){.lease = info->lease,
                                                                  .n_bytes = info->n_bytes,
                                                                  .flags = flags,
                                                                  .uid = uid,
                                                                  .keep_ms = options->keep_ms};
                return MESSAGE_SHARE_KEPT;
        }
        request->share = (struct message_share){
                .lease = info->lease, .n_bytes = info->n_bytes, .flags = flags, .uid = uid};
        return MESSAGE_SHARE;
}

static int say_older(void)
{
        last_error_set(
                GPUMEM_E_UNSUPPORTED,
                "gpumemd is older than this library and keeps no shared memory: keep_ms must be 0");
        return GPUMEM_E_UNSUPPORTED;
}

static int share(struct gpumem_client *client, const struct shared_alloc_info *info,
                 const struct gpumem_share_options *options, struct gpumem_token *ret_token)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply = FRAME_NULL;
        enum message_kind kind = fill(info, options, &request);
        int r;

        r = reconnect_call_on(client_reconnector(client), info->connection, &request, kind,
                              MESSAGE_SHARED, &reply, &fds);
        if (r == GPUMEM_E_UNKNOWN_KIND)
                return say_older();
        if (r) {
                last_error_set_frame(r, &reply);
                return r;
        }
        memcpy(ret_token->bytes, &reply.shared.token_low, 8);
        memcpy(ret_token->bytes + 8, &reply.shared.token_high, 8);
        return 0;
}

static int share_pointer(struct gpumem_client *client, const void *pointer,
                         const struct gpumem_share_options *options, struct gpumem_token *ret_token)
{
        struct gpumem_share_options ours = {.flags = 0};
        struct shared_alloc_info info = {.n_bytes = 0};
        struct pool *pool;
        int r = 0;

        if (options)
                r = take_options(options, &ours);
        if (!r)
                r = find(client, pointer, &pool, &info);
        if (r == GPUMEM_E_NOT_OURS && is_in_heap(client, pointer))
                r = GPUMEM_E_NOT_SHAREABLE;
        if (!r && !(info.properties & PROTO_PROPERTY_SHAREABLE))
                r = GPUMEM_E_NOT_SHAREABLE;
        if (r)
                return r;
        r = share(client, &info, &ours, ret_token);
        events_tell(client_events(client));
        return r;
}

int gpumem_share(struct gpumem_client *client, const void *pointer,
                 const struct gpumem_share_options *options, struct gpumem_token *ret_token)
{
        int r = client_enter(&client);

        if (r)
                return r;
        last_error_clear();
        r = share_pointer(client, pointer, options, ret_token);
        if (r)
                last_error_keep_of_attach(client_number(client), r);
        return r;
}

static int identify_default(const struct cuda *cuda, void *argument)
{
        int ordinal;

        return stream_identify(cuda, NULL, argument, &ordinal);
}

/* Finds the context that a detach waits for if the memory is a device's: the current one, or the primary one of that
 * device if another device's is current. */
static int context_for(struct gpumem_client *client, const struct pool *pool,
                       struct stream_key *ret_key)
{
        int ordinal, r = GPUMEM_E_NO_CONTEXT;
        bool is_device = pool->memory.kind == GPUMEM_DEVICE;
        char text[GPUMEM_TEXT_BYTES];

        if (client_cuda(client))
                r = stream_identify(client_cuda(client), NULL, ret_key, &ordinal);
        else if (is_device)
                return GPUMEM_E_NO_DRIVER;
        if (is_device && pool->memory.ordinal < 0) {
                (void)snprintf(text, sizeof(text),
                               "the memory is of %s, which this process does not see; is it in "
                               "CUDA_VISIBLE_DEVICES?",
                               pool->row.name);
                last_error_set(GPUMEM_E_NO_POOL, text);
                return GPUMEM_E_NO_POOL;
        }
        if (r == GPUMEM_E_NO_CONTEXT && !is_device) {
                *ret_key = (struct stream_key){.context = 0};
                r = 0;
        }
        if (!r && is_device && ordinal != pool->memory.ordinal)
                r = primary_contexts_run(&client->primaries, client_cuda(client),
                                         pool->memory.ordinal, identify_default, ret_key);
        return r;
}

static void say_detached(struct gpumem_client *client, uint64_t connection, uint64_t lease)
{
        struct frame frame = FRAME_NULL;

        frame.detach.lease = lease;
        frame.detach.flags = PROTO_RETURN_UNMAPPED;
        reconnect_send(client_reconnector(client), connection, &frame, MESSAGE_DETACH);
}

/* Maps the block. If the client has left the connection meanwhile, the lease is over, and no daemon need be told. */
static int map(struct gpumem_client *client, uint64_t connection,
               const struct message_attached *answer, int take_fd, void **ret_pointer)
{
        CLEANUP(closep)
        int fd = take_fd;
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct pool *pool = client_pool_on(client, connection, answer->pool);
        struct stream_key key;
        bool is_stuck = false;
        int r = -EPROTO;

        if (pool && answer->n_bytes <= answer->n_block_bytes)
                r = context_for(client, pool, &key);
        if (!r)
                r = shared_alloc_attach(pool, &key, connection, answer, steal_fd(&fd), &is_stuck,
                                        ret_pointer);
        if (r && !is_stuck)
                say_detached(client, connection, answer->lease);
        return r;
}

static int attach(struct gpumem_client *client, const struct gpumem_token *token,
                  void **ret_pointer, uint64_t *ret_n_bytes)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply = FRAME_NULL;
        uint64_t connection;
        int r;

        memcpy(&request.attach.token_low, token->bytes, 8);
        memcpy(&request.attach.token_high, token->bytes + 8, 8);
        r = reconnect_call(client_reconnector(client), &request, MESSAGE_ATTACH, MESSAGE_ATTACHED,
                           &reply, &fds, &connection);
        if (r)
                last_error_set_frame(r, &reply);
        events_tell(client_events(client));
        if (!r)
                r = map(client, connection, &reply.attached, fdset_steal(&fds, 0), ret_pointer);
        if (!r)
                *ret_n_bytes = reply.attached.n_bytes;
        return r;
}

int gpumem_attach(struct gpumem_client *client, const struct gpumem_token *token,
                  void **ret_pointer, uint64_t *ret_n_bytes)
{
        int r = client_enter(&client);

        if (r)
                return r;
        last_error_clear();
        r = attach(client, token, ret_pointer, ret_n_bytes);
        if (r)
                last_error_keep_of_attach(client_number(client), r);
        return r;
}

/* Waits for the stream and the recorded streams, then unmaps; other holders are not concerned. Memory without a
 * context needs none here: no stream can use it then. */
static int end_in_order(struct gpumem_client *client, struct pool *pool,
                        const struct shared_alloc_info *info, const void *pointer, void *stream)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct stream_key key = {.context = 0};
        int ordinal, r = GPUMEM_E_NO_CONTEXT;

        if (client_cuda(client))
                r = stream_identify(client_cuda(client), stream, &key, &ordinal);
        if (!r)
                r = streams_wait(&client->streams, key.context, &stream);
        else if (r == GPUMEM_E_NO_CONTEXT && !info->key.context)
                r = 0;
        else if (r == GPUMEM_E_NO_CONTEXT && info->key.id == POOL_ANY_STREAM)
                r = stream_synchronize_context(client_cuda(client), info->key.context);
        if (!r && info->key.context && info->key.context != key.context)
                r = streams_wait_others(&client->streams, info->key.context);
        if (!r)
                r = stream_uses_wait(&client->uses, client_cuda(client), pointer);
        return r ? r : shared_alloc_end(pool, pointer, info->lease);
}

static int end_after_all(struct gpumem_client *client, struct pool *pool,
                         const struct shared_alloc_info *info, const void *pointer)
{
        int r = 0;

        if (client_cuda(client))
                r = stream_synchronize_contexts(client_cuda(client), info->key.context);
        return r ? r : shared_alloc_end(pool, pointer, info->lease);
}

static int find_attached(struct gpumem_client *client, const void *pointer, struct pool **ret_pool,
                         struct shared_alloc_info *ret_info)
{
        int r = find(client, pointer, ret_pool, ret_info);

        if (r == GPUMEM_E_NOT_OURS && is_in_heap(client, pointer))
                return GPUMEM_E_NOT_ATTACHED;
        return !r && ret_info->kind != SHARED_ALLOC_ATTACHED ? GPUMEM_E_NOT_ATTACHED : r;
}

int gpumem_detach(struct gpumem_client *client, void *pointer, void *stream)
{
        struct shared_alloc_info info;
        struct pool *pool;
        int r;

        if (!pointer)
                return 0;
        r = client_enter_present(&client);
        if (!r)
                r = find_attached(client, pointer, &pool, &info);
        return r ? r : end_in_order(client, pool, &info, pointer, stream);
}

static int detach_sync(struct gpumem_client *client, const void *pointer)
{
        CLEANUP(capture_spare_end)
        struct capture_spared spared = client_spare_captures(client);
        struct shared_alloc_info info;
        struct pool *pool;
        int r = find_attached(client, pointer, &pool, &info);

        if (!r)
                r = stream_uses_wait(&client->uses, client_cuda(client), pointer);
        return r ? r : end_after_all(client, pool, &info, pointer);
}

int gpumem_detach_sync(struct gpumem_client *client, void *pointer)
{
        int r;

        if (!pointer)
                return 0;
        r = client_enter_present(&client);
        return r ? r : detach_sync(client, pointer);
}

int gpumem_unshare(struct gpumem_client *client, const struct gpumem_token *token)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        r = client_enter(&client);
        if (r)
                return r;
        memcpy(&request.unshare.token_low, token->bytes, 8);
        memcpy(&request.unshare.token_high, token->bytes + 8, 8);
        r = reconnect_call(client_reconnector(client), &request, MESSAGE_UNSHARE, MESSAGE_UNSHARED,
                           &reply, &fds, NULL);
        events_tell(client_events(client));
        return r;
}

static int find_own(struct gpumem_client *client, const void *pointer, struct pool **ret_pool,
                    struct shared_alloc_info *ret_info)
{
        int r = find(client, pointer, ret_pool, ret_info);

        if (!r && ret_info->kind != SHARED_ALLOC_OWN)
                r = GPUMEM_E_ATTACHED;
        return r;
}

int client_free_shared(struct gpumem_client *client, const void *pointer, void *stream)
{
        struct shared_alloc_info info;
        struct pool *pool;
        int r = find_own(client, pointer, &pool, &info);

        return r ? r : end_in_order(client, pool, &info, pointer, stream);
}

int client_free_shared_sync(struct gpumem_client *client, const void *pointer)
{
        struct shared_alloc_info info;
        struct pool *pool;
        int r = find_own(client, pointer, &pool, &info);

        return r ? r : end_after_all(client, pool, &info, pointer);
}

const char *gpumem_token_format(const struct gpumem_token *token, char *text)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < GPUMEM_TOKEN_BYTES; i++) {
                text[2 * i] = digits[token->bytes[i] >> 4];
                text[2 * i + 1] = digits[token->bytes[i] & 15];
        }
        text[GPUMEM_TOKEN_TEXT_BYTES - 1] = '\0';
        return text;
}

static int digit_value(char digit)
{
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (digit >= 'a' && digit <= 'f')
                return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'F')
                return digit - 'A' + 10;
        return -1;
}

int gpumem_token_parse(const char *text, struct gpumem_token *ret_token)
{
        struct gpumem_token token;

        if (strnlen(text, GPUMEM_TOKEN_TEXT_BYTES) != GPUMEM_TOKEN_TEXT_BYTES - 1)
                return GPUMEM_E_BAD_REQUEST;
        for (size_t i = 0; i < GPUMEM_TOKEN_BYTES; i++) {
                int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return GPUMEM_E_BAD_REQUEST;
                token.bytes[i] = (uint8_t)(high << 4 | low);
        }
        *ret_token = token;
        return 0;
}
