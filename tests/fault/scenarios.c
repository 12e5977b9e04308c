/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fault/scenarios.h"

#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/size.h"
#include "driver/cuda.h"
#include "gpumem.h"

#define FIRST_FD 3
#define LAST_FD  256

int scenario_daemon;
unsigned scenario_wait_ms;

static int alloc(struct gpumem_client *client, const struct gpu *gpu, uint64_t n_bytes,
                 uint32_t flags, void **ret_pointer)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_DEVICE,
                                         .stream = gpu_stream(gpu),
                                         .n_bytes = n_bytes,
                                         .flags = flags,
                                         .wait_ms = scenario_wait_ms};

        return gpumem_alloc(client, &request, ret_pointer);
}

/* Fills some of it, and looks whether that is there. A copy that fails says nothing of bytes. */
static int mark(struct gpu *gpu, void *pointer, unsigned char byte)
{
        return gpu_fill(gpu, pointer, byte, KIB) || gpu_synchronize(gpu) ? -EIO : 0;
}

static int check(struct gpu *gpu, const void *pointer, unsigned char byte)
{
        const unsigned char *bytes;
        void *staged;

        if (gpu_restart(gpu) || gpu_stage(gpu, KIB, &staged) ||
            gpu_copy_to_host(gpu, staged, pointer, KIB) || gpu_synchronize(gpu))
                return -EIO;
        bytes = staged;
        for (unsigned i = 0; i < KIB; i++) {
                if (bytes[i] != byte)
                        return -EBADMSG;
        }
        return 0;
}

static int or_first(int first, int r)
{
        return first == 0 || r == -EBADMSG ? r : first;
}

/* A free that fails may be tried again: memory that is not given back is the application's still. */
static int let_go(struct gpumem_client *client, const struct gpu *gpu, void *pointer)
{
        int r = pointer ? gpumem_free(client, pointer, gpu_stream(gpu)) : 0;

        if (r)
                (void)gpumem_free_sync(client, pointer);
        return r;
}

static int run_alloc(struct gpu *gpu)
{
        struct gpumem_client *client;
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        void *small = NULL, *large = NULL;
        int r = gpumem_connect(NULL, &client);

        if (r)
                return r;
        r = alloc(client, gpu, 3 * KIB, 0, &small);
        if (!r)
                r = mark(gpu, small, 1);
        r = or_first(r, alloc(client, gpu, 24 * MIB, 0, &large));
        if (large)
                r = or_first(r, mark(gpu, large, 2));
        if (small && !r)
                r = check(gpu, small, 1);
        r = or_first(r, gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats));
        r = or_first(r, let_go(client, gpu, small));
        r = or_first(r, let_go(client, gpu, large));
        r = or_first(r, gpumem_flush(client, NULL));
        gpumem_disconnect(client);
        return r;
}

static int attach(struct gpumem_client *client, struct gpu *gpu, const struct gpumem_token *token)
{
        uint64_t n_bytes;
        void *pointer;
        int r = gpumem_attach(client, token, &pointer, &n_bytes);

        if (r)
                return r;
        r = check(gpu, pointer, 3);
        return or_first(r, gpumem_detach(client, pointer, gpu_stream(gpu)));
}

static int share(struct gpumem_client *one, struct gpumem_client *other, struct gpu *gpu)
{
        struct gpumem_token token;
        void *pointer;
        int r = alloc(one, gpu, 4 * MIB, GPUMEM_SHAREABLE, &pointer);

        if (r)
                return r;
        r = mark(gpu, pointer, 3);
        if (!r)
                r = gpumem_share(one, pointer, NULL, &token);
        if (!r) {
                r = attach(other, gpu, &token);
                r = or_first(r, gpumem_unshare(one, &token));
        }
        return or_first(r, let_go(one, gpu, pointer));
}

static int with_two(struct gpu *gpu, int (*run)(struct gpumem_client *one,
                                                struct gpumem_client *other, struct gpu *gpu))
{
        struct gpumem_client *one, *other;
        int r = gpumem_connect(NULL, &one);

        if (r)
                return r;
        r = gpumem_connect(NULL, &other);
        if (!r) {
                r = run(one, other, gpu);
                gpumem_disconnect(other);
        }
        gpumem_disconnect(one);
        return r;
}

static int run_share(struct gpu *gpu)
{
        return with_two(gpu, share);
}

static int run_pinned(struct gpu *gpu)
{
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .stream = gpu_stream(gpu),
                                         .n_bytes = 3 * MIB};
        struct gpumem_client *client;
        void *pointer = NULL;
        int r = gpumem_connect(NULL, &client);

        if (r)
                return r;
        r = gpumem_alloc(client, &request, &pointer);
        if (!r)
                memset(pointer, 4, request.n_bytes);
        r = or_first(r, let_go(client, gpu, pointer));
        r = or_first(r, gpumem_flush(client, NULL));
        gpumem_disconnect(client);
        return r;
}

/* Two clients want more than there is: what one does not use is the other's. */
static int take_idle(struct gpumem_client *one, struct gpumem_client *other, struct gpu *gpu)
{
        void *idle, *pointer = NULL, *kept = NULL;
        int r = alloc(one, gpu, 160 * MIB, 0, &idle);

        if (r)
                return r;
        r = alloc(one, gpu, 2 * MIB, 0, &kept);
        if (!r)
                r = mark(gpu, kept, 5);
        r = or_first(r, let_go(one, gpu, idle));
        r = or_first(r, alloc(other, gpu, 160 * MIB, 0, &pointer));
        if (pointer) {
                r = or_first(r, mark(gpu, pointer, 6));
                r = kept && !r ? check(gpu, kept, 5) : r;
                r = or_first(r, let_go(other, gpu, pointer));
        }
        return or_first(r, let_go(one, gpu, kept));
}

static int run_revoke(struct gpu *gpu)
{
        return with_two(gpu, take_idle);
}

#define N_PIECES 6
#define PIECE    (8 * MIB)

/* Every second of the pieces was freed: what is in the others stays. */
static int move(struct gpumem_client *client, struct gpu *gpu, void *const *pieces)
{
        void *large = NULL;
        int r = alloc(client, gpu, N_PIECES / 2 * PIECE, 0, &large);

        if (large)
                r = or_first(r, mark(gpu, large, 9));
        for (unsigned i = 0; i < N_PIECES && !r; i += 2)
                r = check(gpu, pieces[i], (unsigned char)(10 + i));
        return or_first(r, let_go(client, gpu, large));
}

/* The service thread sees after a while that the work is over. */
#define IDLE_MS 30

/* Free memory in pieces becomes one run. */
static int run_move(struct gpu *gpu)
{
        void *pieces[N_PIECES] = {NULL};
        struct gpumem_client *client;
        int r = gpumem_connect(NULL, &client);

        if (r)
                return r;
        for (unsigned i = 0; i < N_PIECES && !r; i++) {
                r = alloc(client, gpu, PIECE, 0, &pieces[i]);
                if (!r)
                        r = mark(gpu, pieces[i], (unsigned char)(10 + i));
        }
        for (unsigned i = 1; i < N_PIECES; i += 2)
                r = or_first(r, let_go(client, gpu, pieces[i]));
        if (!r && gpu_synchronize(gpu) == 0) {
                (void)poll(NULL, 0, IDLE_MS);
                r = move(client, gpu, pieces);
        }
        for (unsigned i = 0; i < N_PIECES; i += 2)
                r = or_first(r, let_go(client, gpu, pieces[i]));
        r = or_first(r, gpumem_flush(client, NULL));
        gpumem_disconnect(client);
        return r;
}

static void *call_named(const char *name)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW | RTLD_NOLOAD);
        void *call = library ? dlsym(library, name) : NULL;

        if (library)
                (void)dlclose(library);
        return call;
}

static int end_capture(CUstream stream)
{
        __typeof__(cuStreamEndCapture) *end = call_named("cuStreamEndCapture");
        __typeof__(cuGraphDestroy) *destroy = call_named("cuGraphDestroy");
        CUgraph graph = NULL;

        /* A call that fails has not ended it. */
        if (end(stream, &graph) && end(stream, &graph))
                return -EIO;
        if (!graph)
                return -EIO;
        return destroy(graph) && destroy(graph) ? -EIO : 0;
}

static int run_capture(struct gpu *gpu)
{
        __typeof__(cuStreamBeginCapture) *begin = call_named("cuStreamBeginCapture_v2");
        struct gpumem_client *client;
        void *pointer = NULL;
        int r = gpumem_connect(NULL, &client);

        if (r)
                return r;
        r = begin(gpu_stream(gpu), CU_STREAM_CAPTURE_MODE_GLOBAL) ? -EIO : 0;
        if (!r) {
                r = alloc(client, gpu, 2 * MIB, 0, &pointer);
                if (!r)
                        r = gpu_fill(gpu, pointer, 7, KIB) ? -EIO : 0;
                r = or_first(r, let_go(client, gpu, pointer));
                r = or_first(r, end_capture(gpu_stream(gpu)));
        }
        r = or_first(r, gpumem_flush(client, NULL));
        gpumem_disconnect(client);
        return r;
}

/* Connections of this process to other processes' sockets end; the other sides are not told. */
static void cut(void)
{
        for (int fd = FIRST_FD; fd < LAST_FD; fd++) {
                struct sockaddr_storage address;
                socklen_t n_bytes = sizeof(address);

                if (getpeername(fd, (struct sockaddr *)&address, &n_bytes) == 0 &&
                    address.ss_family == AF_UNIX)
                        (void)shutdown(fd, SHUT_RDWR);
        }
}

static int run_reconnect(struct gpu *gpu)
{
        struct gpumem_client *client;
        void *held = NULL, *pointer = NULL;
        int r = gpumem_connect(NULL, &client);

        if (r)
                return r;
        r = alloc(client, gpu, 2 * MIB, 0, &held);
        if (!r)
                r = mark(gpu, held, 8);
        cut();
        r = or_first(r, alloc(client, gpu, 24 * MIB, 0, &pointer));
        if (held && !r)
                r = check(gpu, held, 8);
        r = or_first(r, let_go(client, gpu, held));
        r = or_first(r, let_go(client, gpu, pointer));
        gpumem_disconnect(client);
        return r;
}

static int run_reload(struct gpu *gpu)
{
        struct gpumem_client *client;
        struct gpumem_stats stats = {.struct_size = sizeof(stats)};
        int r = kill(scenario_daemon, SIGHUP) ? err_errno() : gpumem_connect(NULL, &client);

        if (r)
                return r;
        for (unsigned i = 0; i < 8; i++)
                r = or_first(r, gpumem_get_stats(client, GPUMEM_DEVICE, 0, &stats));
        (void)gpu;
        gpumem_disconnect(client);
        return r;
}

#define LEGACY                                                                            \
        "{\"user\": 0, \"tenants\": \"uid\", \"pools\": [{\"device\": \"all\", \"ipc\": " \
        "\"legacy\"}]}\n"

const struct scenario scenarios[] = {
        {"alloc", run_alloc, "0", "{}\n", SCENARIO_ON_DEVICE},
        {"share", run_share, "0", "{}\n", SCENARIO_ON_DEVICE},
        {"pinned", run_pinned, "0", "{}\n", SCENARIO_ON_DEVICE},
        {"capture", run_capture, "0", "{}\n", SCENARIO_ON_DEVICE},
        {"revoke", run_revoke, NULL, "{}\n", SCENARIO_ON_DEVICE},
        {"move", run_move, NULL, "{}\n", SCENARIO_ON_DEVICE},
        {"reconnect", run_reconnect, "0", "{}\n", SCENARIO_ON_DEVICE},
        {"reload", run_reload, "0", "{}\n", SCENARIO_SIGNALS_DAEMON},
        {"legacy", run_alloc, "0", LEGACY, SCENARIO_ON_DEVICE},
};
const unsigned n_scenarios = ARRAY_SIZE(scenarios);
