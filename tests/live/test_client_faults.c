/* SPDX-License-Identifier: Apache-2.0 */
/* A client whose driver fails now and then: what it could not map or unmap is not forgotten, and is tried
 * again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "client/mapping/mapping.h"
#include "gpumem.h"
#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define PIECE (64 * MIB)

static struct daemon gpumemd;
static struct gpu *gpu;
static struct gpumem_client *client;

static void start_on(const char *machine)
{
        daemon_start(&gpumemd, machine, NULL);
        ck_assert_int_eq(gpu_new(0, &gpu), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

static void start(void)
{
        start_on("devices=1,bytes=256MiB,reclaim_ms=50");
}

static void faults(const char *lines)
{
        daemon_fault(&gpumemd, getpid(), lines);
}

static int alloc_in(void *stream, uint64_t n_bytes, void **ret_pointer)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .stream = stream,
                                               .n_bytes = n_bytes};

        return gpumem_alloc(client, &request, ret_pointer);
}

static int alloc(uint64_t n_bytes, void **ret_pointer)
{
        return alloc_in(NULL, n_bytes, ret_pointer);
}

/* The driver has every byte again that the daemon says it has: there is room for all. */
static void end(void)
{
        void *pointer;

        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        daemon_expect_empty();
        ck_assert_int_eq(alloc(256 * MIB, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, 256 * MIB), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        gpumem_disconnect(client);
        gpu_free(gpu);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

/* Its addresses are not another block's before it has gone. */
TEST(a_block_that_is_half_mapped_is_unmapped_later)
{
        void *pointer;

        start();
        faults("fail=cuMemSetAccess:1:999\nfail=cuMemUnmap:*:999");
        ck_assert_int_eq(alloc(PIECE, &pointer), -EIO);
        ck_assert_uint_ne(daemon_figure(FIGURE_charged), 0);
        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        faults("");
        end();
}

TEST(a_handle_that_is_not_taken_back_is_let_go_with_its_block)
{
        void *pointer;

        start();
        faults("fail=cuMemRelease:1:999");
        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        faults("");
        end();
}

TEST(a_block_that_is_not_unmapped_stays_leased_and_is_tried_again)
{
        void *pointer;

        start();
        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        faults("fail=cuMemUnmap:*:999");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_int_eq(gpumem_flush(client, NULL), 0);
        ck_assert_uint_ge(daemon_figure(FIGURE_charged), PIECE);
        faults("");
        end();
}

/* At the latest when it leaves; what it could not unmap even then is its own until the process ends. */
TEST(who_leaves_unmaps_what_it_can)
{
        void *pointer;

        start();
        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        faults("fail=cuMemUnmap:1:999");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        gpumem_disconnect(client);
        faults("");
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        end();
}

/* The work that has yet to be done finds its memory: a wait that fails is none. */
TEST(who_leaves_waits_for_work_though_the_driver_fails_once)
{
        void *pointer;

        start_on("devices=1,bytes=256MiB,reclaim_ms=50,copy_delay_us=300000");
        /* Without a cache the free would wait. */
        gpumem_disconnect(client);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(alloc_in(gpu_stream(gpu), PIECE, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpu)), 0);
        faults("fail=cuMemHostRegister:1:999\nfail=cuMemAlloc:1:2");
        gpumem_disconnect(client);
        faults("");
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
        gpu_free(gpu);
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

/* The work has yet to be done when the wait begins. */
TEST(a_free_without_a_stream_waits_though_no_page_can_be_registered)
{
        unsigned char *seen;
        void *pointer, *staged;

        start_on("devices=1,bytes=256MiB,reclaim_ms=50,copy_delay_us=300000");
        ck_assert_int_eq(gpu_stage(gpu, 1, &staged), 0);
        seen = staged;
        *seen = 0;
        ck_assert_int_eq(alloc_in(gpu_stream(gpu), PIECE, &pointer), 0);
        ck_assert_int_eq(gpu_fill(gpu, pointer, 1, PIECE), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, seen, pointer, 1), 0);
        faults("fail=cuMemHostRegister:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        ck_assert_uint_eq(*seen, 1);
        faults("");
        end();
}

TEST(a_free_without_a_stream_frees_nothing_where_it_cannot_wait)
{
        void *pointer;

        start();
        ck_assert_int_eq(alloc(PIECE, &pointer), 0);
        faults("fail=cuMemHostRegister:*:999\nfail=cuMemAlloc:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), -EIO);
        faults("fail=cuMemHostRegister:*:2\nfail=cuMemAlloc:*:2");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), GPUMEM_E_DEVICE_FULL);
        faults("");
        ck_assert_int_eq(gpumem_free_sync(client, pointer), 0);
        end();
}

/* What a process has left of its addresses, as RLIMIT_AS may say. */
static uint64_t n_most_addresses = UINT64_MAX;

int __real_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
int __wrap_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address);
int __wrap_mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address)
{
        return n_bytes > n_most_addresses ? -ENOMEM
                                          : __real_mapping_reserve(memory, n_bytes, ret_address);
}

static int alloc_kind(enum gpumem_kind kind, uint32_t flags, uint64_t n_bytes, void **ret_pointer)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = kind,
                                               .place = GPUMEM_NEAREST,
                                               .n_bytes = n_bytes,
                                               .flags = flags};

        return gpumem_alloc(client, &request, ret_pointer);
}

static void use(enum gpumem_kind kind, void *pointer, uint64_t n_bytes)
{
        if (kind == GPUMEM_PINNED)
                memset(pointer, 1, n_bytes);
        else
                ck_assert_int_eq(gpu_fill(gpu, pointer, 1, n_bytes), 0);
}

/* What was allocated meanwhile stays where it is. */
static void check_few_addresses(enum gpumem_kind kind, uint32_t flags)
{
        void *none, *small, *large, *larger;

        start_on("devices=1,bytes=141GiB");
        n_most_addresses = 0;
        ck_assert_int_eq(alloc_kind(kind, flags, MIB, &none), -ENOMEM);
        n_most_addresses = 4 * MIB;
        ck_assert_int_eq(alloc_kind(kind, flags, MIB, &small), 0);
        ck_assert_int_eq(alloc_kind(kind, flags, 16 * MIB, &none), -ENOMEM);
        n_most_addresses = 24 * MIB;
        ck_assert_int_eq(alloc_kind(kind, flags, 16 * MIB, &large), 0);
        ck_assert_int_eq(alloc_kind(kind, flags, PIECE, &none), -ENOMEM);
        n_most_addresses = UINT64_MAX;
        ck_assert_int_eq(alloc_kind(kind, flags, PIECE, &larger), 0);
        use(kind, small, MIB);
        use(kind, large, 16 * MIB);
        use(kind, larger, PIECE);
        ck_assert_int_eq(gpumem_free_sync(client, large), 0);
        ck_assert_int_eq(gpumem_free_sync(client, small), 0);
        ck_assert_int_eq(gpumem_free_sync(client, larger), 0);
        end();
}

TEST(few_addresses_are_few_no_longer_than_that, .to = 2)
{
        check_few_addresses(_i ? GPUMEM_PINNED : GPUMEM_DEVICE, 0);
}

TEST(few_addresses_for_what_is_shared_are_few_no_longer_than_that, .to = 2)
{
        check_few_addresses(_i ? GPUMEM_PINNED : GPUMEM_DEVICE, GPUMEM_SHAREABLE);
}

TESTS_MAIN("client_faults", .limit_s = 120, .can_run = machine_is_emulated,
           .needs = "faults of the emulated driver")
