/* SPDX-License-Identifier: Apache-2.0 */
#include "client/api/default_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/err.h"
#include "client/api/client.h"
#include "client/api/wrong_request.h"
#include "client/runtime/before_wait.h"
#include "client/runtime/last_error.h"
#include "driver/context.h"
#include "driver/stream.h"

static struct {
        _Atomic(struct gpumem_client *) client;
        pthread_mutex_t lock; /* serializes connects; guards `program` */
        char program[64];     /* empty: the name of the file that runs */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread that held the lock is the parent's. */
static void after_fork_in_child(void)
{
        pthread_mutex_init(&process.lock, NULL);
}

/* As those of runtime/fork_guard.h. */
__attribute__((constructor)) static void watch_forks(void)
{
        (void)pthread_atfork(NULL, NULL, after_fork_in_child);
}

struct gpumem_client *default_client_present(void)
{
        struct gpumem_client *client = atomic_load_explicit(&process.client, memory_order_acquire);

        return client && fork_guard_check(&client->fork_guard) == 0 ? client : NULL;
}

/* The caller has the lock. The parent's client is kept: the program may still have pointers to it. */
static int connect_first(struct gpumem_client **ret_client)
{
        const struct gpumem_options options = {.struct_size = sizeof(options),
                                               .program = *process.program ? process.program
                                                                           : NULL};
        struct gpumem_client *client;
        int r = gpumem_connect(&options, &client);

        if (r)
                return r;
        client->is_default = true;
        client->parents = atomic_load(&process.client);
        atomic_store(&process.client, client);
        *ret_client = client;
        return 0;
}

int default_client_get(struct gpumem_client **ret_client)
{
        struct gpumem_client *client = default_client_present();
        int r = 0;

        if (!client) {
                before_wait_begin();
                pthread_mutex_lock(&process.lock);
                client = default_client_present();
                if (!client)
                        r = connect_first(&client);
                pthread_mutex_unlock(&process.lock);
        }
        if (!r)
                *ret_client = client;
        return r;
}

int gpumem_default_client(struct gpumem_client **ret_client)
{
        return default_client_get(ret_client);
}

void gpumem_set_program(const char *name)
{
        pthread_mutex_lock(&process.lock);
        (void)snprintf(process.program, sizeof(process.program), "%s", name ? name : "");
        pthread_mutex_unlock(&process.lock);
}

/* Keeps the text that names the pools there are. */
static int refuse_place(struct gpumem_client *client, enum gpumem_kind kind, int32_t place)
{
        const struct gpumem_request request = {.kind = kind, .place = place};
        int r;

        last_error_clear();
        r = wrong_request_place(client, kind, place);
        last_error_keep(client_number(client), r, &request);
        return r;
}

int client_find_pool(struct gpumem_client *client, enum gpumem_kind kind, int32_t place,
                     struct pool **ret_pool)
{
        const struct cuda *cuda;
        struct pool *pool;
        int r = client_enter(&client);

        if (r)
                return r;
        client_settle_marks(client);
        if (kind != GPUMEM_DEVICE && kind != GPUMEM_PINNED)
                return GPUMEM_E_BAD_REQUEST;
        cuda = client_cuda(client);
        if (kind == GPUMEM_DEVICE && place == GPUMEM_NEAREST) {
                r = cuda ? context_device(cuda, &place) : GPUMEM_E_NO_DRIVER;
                if (r)
                        return r;
        }
        pool = client_pool_at(client, kind, place);
        if (!pool)
                return refuse_place(client, kind, place);
        *ret_pool = pool;
        return 0;
}

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
