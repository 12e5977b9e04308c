/* SPDX-License-Identifier: Apache-2.0 */
/* The library as part of a plugin, which a program loads and unloads. */
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/live/support/capturer.h"
#include "tests/live/support/world.h"

#define N_BYTES MIB

static struct gpu *gpu;
static struct cuda cuda;
static void *plugin;
static __typeof__(gpumem_malloc) *plugin_malloc;
static __typeof__(gpumem_free) *plugin_free;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        gpu = use_gpu();
        load_driver(&cuda);
        plugin = dlopen(getenv("GPUMEM_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
        ck_assert_msg(plugin, "%s", dlerror());
        *(void **)&plugin_malloc = dlsym(plugin, "gpumem_malloc");
        *(void **)&plugin_free = dlsym(plugin, "gpumem_free");
}

static void stop(void)
{
        gpu_free(gpu);
        daemon_stop(&gpumemd);
}

/* The driver tells the library of the end of each graph that has memory. */
TEST(a_graph_ends_after_the_plugin_was_unloaded)
{
        struct capturer capturer;
        CUstream stream = gpu_stream(gpu);
        void *pointer;
        CUgraph graph;

        capturer_init(&capturer, &cuda);
        capturer_begin(&capturer, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        ck_assert_int_eq(plugin_malloc(N_BYTES, stream, &pointer), 0);
        DRIVER(cuMemsetD8Async, (CUdeviceptr)(uintptr_t)pointer, 1, N_BYTES, stream);
        graph = capturer_end(&capturer, stream);
        ck_assert_int_eq(dlclose(plugin), 0);
        capturer_replay(&capturer, graph, stream);
        capturer_destroy(&capturer, graph);
}

/* The default client stays until the process ends, and so does its memory. */
TEST(memory_is_freed_by_the_plugin_that_was_loaded_again)
{
        void *pointer;

        ck_assert_int_eq(plugin_malloc(N_BYTES, gpu_stream(gpu), &pointer), 0);
        ck_assert_int_eq(dlclose(plugin), 0);
        plugin = dlopen(getenv("GPUMEM_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
        *(void **)&plugin_free = dlsym(plugin, "gpumem_free");
        ck_assert_int_eq(plugin_free(NULL, pointer, gpu_stream(gpu)), 0);
}

TESTS_MAIN("unloaded", .limit_s = 60, .start = start, .stop = stop)
