/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/soak/graphs.h"

#include <dlfcn.h>
#include <string.h>

#include "base/size.h"
#include "tests/demo/gpu.h"

#define BYTES_MAX (1 * MIB)
#define POOL_ID   1

/* Names pass through <cuda.h>'s macros first. */
#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)
#define FIND(member, call)                                                                  \
        do {                                                                                \
                graphs->member = (__typeof__(graphs->member))dlsym(library, NAME_OF(call)); \
                if (!graphs->member)                                                        \
                        crowd_fail(crowd, "%s: not there", NAME_OF(call));                  \
        } while (0)

void graphs_init(struct graphs *graphs, struct crowd *crowd)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);
        char reason[CUDA_REASON_MAX];

        *graphs = (struct graphs){.crowd = crowd};
        if (!library)
                crowd_fail(crowd, "%s", dlerror());
        crowd_must(crowd, cuda_load(NULL, &graphs->cuda, reason), "the driver");
        FIND(begin, cuStreamBeginCapture);
        FIND(end, cuStreamEndCapture);
        FIND(instantiate, cuGraphInstantiate);
        FIND(launch, cuGraphLaunch);
        FIND(destroy, cuGraphDestroy);
        FIND(destroy_executable, cuGraphExecDestroy);
}

static void must(const struct graphs *graphs, CUresult result, const char *what)
{
        if (result)
                crowd_fail(graphs->crowd, "%s: the driver's error %d", what, (int)result);
}

static uint64_t below(const struct graphs *graphs, uint64_t limit)
{
        return test_random_below(&graphs->crowd->random, limit);
}

static CUdeviceptr address_of(const struct crowd_memory *memory)
{
        return (CUdeviceptr)(uintptr_t)memory->bytes;
}

static void free_in(const struct graphs *graphs, const struct crowd_memory *memory,
                    const struct crowd_lane *lane)
{
        crowd_must(graphs->crowd,
                   gpumem_free(graphs->crowd->client, memory->bytes, gpu_stream(lane->gpu)),
                   "gpumem_free");
}

/* Writes wrong bytes first, in memory that the right ones may get afterwards. */
static int enqueue_on_device(const struct graphs *graphs, const struct graph *graph)
{
        struct crowd_lane *lane = graph->result.lane;
        struct crowd *crowd = graphs->crowd;
        CUstream stream = gpu_stream(lane->gpu);
        unsigned char byte = (unsigned char)graph->result.tag;
        struct crowd_memory wrong, right;
        int r;

        r = crowd_try_alloc(crowd, CROWD_DEVICE, lane, 1 + below(graphs, BYTES_MAX), 0, &wrong);
        if (r)
                return r;
        crowd_must(crowd, gpu_fill(lane->gpu, wrong.bytes, (unsigned char)~byte, wrong.n_bytes),
                   "a memset in a capture");
        free_in(graphs, &wrong, lane);
        r = crowd_try_alloc(crowd, CROWD_DEVICE, lane, graph->result.n_bytes, 0, &right);
        if (r)
                return r;
        crowd_must(crowd, gpu_fill(lane->gpu, right.bytes, byte, right.n_bytes),
                   "a memset in a capture");
        crowd_must(crowd,
                   CUDA_CALL(&graphs->cuda, cuMemcpyDtoDAsync, address_of(&graph->result),
                             address_of(&right), right.n_bytes, stream),
                   "a copy in a capture");
        free_in(graphs, &right, lane);
        return 0;
}

/* The first half goes through staging memory, which is freed at once. */
static int enqueue_from_host(const struct graphs *graphs, const struct graph *graph)
{
        struct crowd_lane *lane = graph->result.lane;
        struct crowd_memory staged;
        uint64_t n_bytes = (graph->result.n_bytes + 1) / 2;
        int r = crowd_try_alloc(graphs->crowd, CROWD_PINNED, lane, n_bytes, 0, &staged);

        if (r)
                return r;
        memset(staged.bytes, (unsigned char)graph->result.tag, n_bytes);
        crowd_must(graphs->crowd,
                   gpu_copy_to_device(lane->gpu, graph->result.bytes, staged.bytes, n_bytes),
                   "a copy in a capture");
        free_in(graphs, &staged, lane);
        return 0;
}

static void destroy(const struct graphs *graphs, const struct graph *graph)
{
        if (graph->executable)
                must(graphs, graphs->destroy_executable(graph->executable), "an executable");
        must(graphs, graphs->destroy(graph->graph), "a graph");
}

static int capture(const struct graphs *graphs, struct graph *graph,
                   const struct crowd_memory *freed)
{
        static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                    CU_STREAM_CAPTURE_MODE_RELAXED};
        CUstream stream = gpu_stream(graph->result.lane->gpu);
        int r;

        must(graphs, graphs->begin(stream, modes[below(graphs, ARRAY_SIZE(modes))]), "a capture");
        if (freed)
                free_in(graphs, freed, graph->result.lane);
        r = enqueue_on_device(graphs, graph);
        if (!r && below(graphs, 2))
                r = enqueue_from_host(graphs, graph);
        must(graphs, graphs->end(stream, &graph->graph), "the end of a capture");
        if (r)
                destroy(graphs, graph);
        else
                must(graphs, graphs->instantiate(&graph->executable, graph->graph, 0),
                     "an executable");
        return r;
}

static void drop(struct graphs *graphs, unsigned i)
{
        struct graph graph = graphs->all[i];

        graphs->all[i] = graphs->all[--graphs->n];
        crowd_use(graphs->crowd, graph.result.lane);
        /* A pool's graphs run one after another, and so do its users outside of captures. */
        if (!graph.is_pooled && below(graphs, 2))
                must(graphs, graphs->launch(graph.executable, gpu_stream(graph.result.lane->gpu)),
                     "a launch");
        destroy(graphs, &graph);
        crowd_free(graphs->crowd, &graph.result);
}

static void begin_pool(const struct graphs *graphs, const struct crowd_lane *lane)
{
        crowd_must(graphs->crowd,
                   gpumem_graph_pool_begin(graphs->crowd->client, POOL_ID, gpu_stream(lane->gpu),
                                           NULL),
                   "gpumem_graph_pool_begin");
}

static void end_pool(const struct graphs *graphs, const struct crowd_lane *lane)
{
        crowd_must(graphs->crowd,
                   gpumem_graph_pool_end(graphs->crowd->client, POOL_ID, gpu_stream(lane->gpu)),
                   "gpumem_graph_pool_end");
}

static bool is_refused(struct graphs *graphs, int r)
{
        if (!r)
                return false;
        if (r != GPUMEM_E_REFUSED && r != GPUMEM_E_DEVICE_FULL)
                crowd_must(graphs->crowd, r, "gpumem_alloc for a graph");
        graphs->n_refused++;
        return true;
}

void graphs_capture(struct graphs *graphs, struct crowd_lane *lane,
                    const struct crowd_memory *freed)
{
        struct graph graph = {.is_pooled = below(graphs, 2)};
        int r;

        if (graphs->n == GRAPHS_MAX)
                drop(graphs, (unsigned)below(graphs, GRAPHS_MAX));
        crowd_use(graphs->crowd, lane);
        r = crowd_try_alloc(graphs->crowd, CROWD_DEVICE, lane, 1 + below(graphs, BYTES_MAX), 0,
                            &graph.result);
        if (is_refused(graphs, r)) {
                if (freed)
                        free_in(graphs, freed, lane);
                return;
        }
        crowd_fill(graphs->crowd, &graph.result, CROWD_SET, crowd_tag(graphs->crowd));
        if (graph.is_pooled)
                begin_pool(graphs, lane);
        r = capture(graphs, &graph, freed);
        if (graph.is_pooled)
                end_pool(graphs, lane);
        if (is_refused(graphs, r)) {
                crowd_free(graphs->crowd, &graph.result);
                return;
        }
        graphs->all[graphs->n++] = graph;
        graphs->n_captures++;
}

void graphs_replay(struct graphs *graphs)
{
        const struct graph *graph = &graphs->all[graphs->n ? below(graphs, graphs->n) : 0];
        struct gpu *gpu;

        if (!graphs->n)
                return;
        gpu = graph->result.lane->gpu;
        crowd_use(graphs->crowd, graph->result.lane);
        crowd_must(graphs->crowd,
                   gpu_fill(gpu, graph->result.bytes, (unsigned char)~graph->result.tag,
                            graph->result.n_bytes),
                   "a memset");
        must(graphs, graphs->launch(graph->executable, gpu_stream(gpu)), "a launch");
        crowd_check(graphs->crowd, &graph->result);
        graphs->n_replays++;
}

void graphs_warm_up(struct graphs *graphs, struct crowd_lane *lane)
{
        struct crowd_memory memory;
        int r;

        crowd_use(graphs->crowd, lane);
        begin_pool(graphs, lane);
        r = crowd_try_alloc(graphs->crowd, CROWD_DEVICE, lane, 1 + below(graphs, BYTES_MAX), 0,
                            &memory);
        if (!is_refused(graphs, r)) {
                crowd_fill(graphs->crowd, &memory, CROWD_SET, crowd_tag(graphs->crowd));
                crowd_free(graphs->crowd, &memory);
        }
        end_pool(graphs, lane);
}

void graphs_drop_all(struct graphs *graphs)
{
        while (graphs->n)
                drop(graphs, graphs->n - 1);
}
