/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: a block of its own that no other allocation gets, its way back to the driver, memory for RDMA, and dma-bufs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tests/live/support/listed.h"
#include "tests/live/worlds/solo.h"

#define N_BYTES   (3 * MIB)
#define N_BLOCK   (4 * MIB)
#define UNTOUCHED (-77)

static struct cuda cuda;
static unsigned n_own_fds;

static void start_with(const char *emulator, const char *const *options)
{
        char reason[CUDA_REASON_MAX];

        daemon_start(&gpumemd, emulator, options);
        gpu = use_gpu();
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        daemon_note_fds(&gpumemd);
        n_own_fds = own_fds();
        client = connect_client();
}

static void start(void)
{
        start_with("devices=1,bytes=256MiB",
                   OPTIONS("--device-bytes", "256MiB", "--pinned-bytes", "64MiB"));
}

static void start_without_rdma(void)
{
        start_with("devices=1,bytes=256MiB,rdma=0", OPTIONS("--device-bytes", "256MiB"));
}

static void stop(void)
{
        gpumem_disconnect(client);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpu_free(gpu);
        gpumemd_stop_empty();
}

static const struct test_case without_rdma = {
        .name = "without RDMA", .limit_s = 60, .start = start_without_rdma, .stop = stop};

static int try_with(enum gpumem_kind kind, uint64_t n_bytes, uint32_t flags, void **ret_pointer)
{
        struct gpumem_request request = request_of(kind, n_bytes);

        request.flags = flags;
        return gpumem_alloc(client, &request, ret_pointer);
}

static char *alloc(enum gpumem_kind kind, uint64_t n_bytes, uint32_t flags)
{
        void *pointer;

        ck_assert_int_eq(try_with(kind, n_bytes, flags, &pointer), 0);
        return pointer;
}

static uint64_t block_of(const void *pointer)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};

        ck_assert_int_eq(gpumem_describe(client, pointer, &info), 0);
        return info.block;
}

static bool is_rdma_capable(const void *pointer)
{
        bool value = false;

        ck_assert_int_eq(cuda.cuPointerGetAttribute(&value,
                                                    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                                                    (CUdeviceptr)pointer),
                         CUDA_SUCCESS);
        return value;
}

static const struct {
        enum gpumem_kind kind;
        uint32_t flags;
} ways[] = {
        {GPUMEM_DEVICE, GPUMEM_REGISTERED},
        {GPUMEM_DEVICE, GPUMEM_RDMA},
        {GPUMEM_DEVICE, GPUMEM_REGISTERED | GPUMEM_SHAREABLE},
        {GPUMEM_PINNED, GPUMEM_REGISTERED},
};

TEST(it_has_a_block_of_its_own_and_goes_back_at_once, .to = ARRAY_SIZE(ways))
{
        char *small = alloc(ways[_i].kind, 1000, 0), *other;
        char *registered = alloc(ways[_i].kind, 1000, ways[_i].flags);
        uint64_t n_creates = daemon_figure(FIGURE_creates), block = block_of(registered);

        ck_assert_uint_eq((uintptr_t)registered % (2 * MIB), 0);
        ck_assert_uint_ne(block, block_of(small));
        other = alloc(ways[_i].kind, 1000, 0);
        ck_assert_uint_eq(block_of(other), block_of(small));
        must_free(registered);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        daemon_await(FIGURE_lingering, 0);
        /* The next one is a new block, too, and so is one of the same size that is not registered. */
        registered = alloc(ways[_i].kind, 1000, ways[_i].flags);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), n_creates + 1);
        ck_assert_uint_ne(block_of(registered), block);
        ck_assert_int_eq(gpumem_free_sync(client, registered), 0);
        must_free(other);
        must_free(small);
}

/* Nor does it take blocks that are empty: those were others'. */
TEST(it_takes_no_block_that_was_used, .to = ARRAY_SIZE(ways))
{
        char *used = alloc(ways[_i].kind, N_BLOCK, 0), *registered;
        uint64_t block = block_of(used), n_creates = daemon_figure(FIGURE_creates);

        must_free(used);
        registered = alloc(ways[_i].kind, N_BLOCK, ways[_i].flags);
        ck_assert_uint_ne(block_of(registered), block);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), n_creates + 1);
        must_free(registered);
}

/* Not even for one that would be refused otherwise. */
TEST(nobody_else_gets_it)
{
        char *registered = alloc(GPUMEM_DEVICE, 200 * MIB, GPUMEM_REGISTERED);
        struct gpumem_client *own = client;
        uint64_t n_freed = 0;
        void *pointer;

        ck_assert_int_eq(gpumem_flush(client, &n_freed), 0);
        ck_assert_int_eq(try_with(GPUMEM_DEVICE, 100 * MIB, 0, &pointer), GPUMEM_E_REFUSED);
        must_say("200.00 MiB registered");
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(try_with(GPUMEM_DEVICE, 100 * MIB, 0, &pointer), GPUMEM_E_REFUSED);
        ck_assert_int_eq(gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, &n_freed), 0);
        ck_assert_uint_eq(n_freed, 0);
        gpumem_disconnect(client);
        client = own;
        must_free(registered);
        must_free(must_alloc(GPUMEM_DEVICE, 200 * MIB));
}

TEST(its_properties_are_listed, .to = ARRAY_SIZE(ways))
{
        static const uint32_t properties[] = {
                PROTO_PROPERTY_REGISTERED, PROTO_PROPERTY_REGISTERED | PROTO_PROPERTY_RDMA,
                PROTO_PROPERTY_REGISTERED | PROTO_PROPERTY_SHAREABLE, PROTO_PROPERTY_REGISTERED};
        char *registered = alloc(ways[_i].kind, N_BYTES, ways[_i].flags);
        struct listed listed = listed_now(MESSAGE_BLOCKS);
        uint64_t n_device_bytes = 0, n_pinned_bytes = 0;

        ck_assert_uint_eq(listed.n_rows, 1);
        ck_assert_uint_eq(listed.blocks[0].properties, properties[_i]);
        listed_free(&listed);
        listed = listed_now(MESSAGE_CLIENTS);
        for (uint32_t i = 0; i < listed.n_rows; i++) {
                n_device_bytes += listed.clients[i].device_registered;
                n_pinned_bytes += listed.clients[i].pinned_registered;
        }
        listed_free(&listed);
        ck_assert_uint_eq(n_device_bytes, ways[_i].kind == GPUMEM_DEVICE ? N_BLOCK : 0);
        ck_assert_uint_eq(n_pinned_bytes, ways[_i].kind == GPUMEM_PINNED ? N_BLOCK : 0);
        must_free(registered);
}

TEST(what_is_left_is_given_back_at_the_end, .to = ARRAY_SIZE(ways))
{
        (void)alloc(ways[_i].kind, N_BYTES, ways[_i].flags);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 1);
}

TEST(only_shareable_memory_is_shared)
{
        struct gpumem_token token = {{7}};
        char *registered = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED);
        char *both = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_RDMA | GPUMEM_SHAREABLE);

        ck_assert_int_eq(gpumem_share(client, registered, NULL, &token), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_uint_eq(token.bytes[0], 7);
        ck_assert_int_eq(gpumem_share(client, both, NULL, &token), 0);
        must_free(registered);
        must_free(both);
}

TEST(rdma_is_a_property_of_its_block, NEEDS_EMULATOR)
{
        char *plain = alloc(GPUMEM_DEVICE, N_BLOCK, 0);
        char *registered = alloc(GPUMEM_DEVICE, N_BLOCK, GPUMEM_REGISTERED);
        char *rdma = alloc(GPUMEM_DEVICE, N_BLOCK, GPUMEM_RDMA);

        ck_assert(!is_rdma_capable(plain));
        ck_assert(!is_rdma_capable(registered));
        ck_assert(is_rdma_capable(rdma));
        must_free(plain);
        must_free(registered);
        must_free(rdma);
        plain = alloc(GPUMEM_DEVICE, N_BLOCK, 0);
        ck_assert(!is_rdma_capable(plain));
        must_free(plain);
}

static void expect_refused(enum gpumem_kind kind, uint32_t flags, const char *part)
{
        int there;
        void *pointer = &there;

        ck_assert_int_eq(try_with(kind, N_BYTES, flags, &pointer), GPUMEM_E_UNSUPPORTED);
        ck_assert_ptr_eq(pointer, &there);
        must_say(part);
        must_say("GPUMEM_REGISTERED");
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 0);
}

TEST(where_there_is_no_rdma_it_is_refused_by_name, .in = &without_rdma, NEEDS_EMULATOR)
{
        expect_refused(GPUMEM_DEVICE, GPUMEM_RDMA, "GPUDirect RDMA");
        expect_refused(GPUMEM_DEVICE, GPUMEM_RDMA | GPUMEM_SHAREABLE, "GPUDirect RDMA");
        must_free(alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED));
}

TEST(rdma_is_for_device_memory)
{
        expect_refused(GPUMEM_PINNED, GPUMEM_RDMA, "device memory");
}

static int export(const void *pointer, uint64_t n_bytes)
{
        int fd = UNTOUCHED;

        ck_assert_int_eq(gpumem_export_dmabuf(client, pointer, n_bytes, &fd), 0);
        ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
        return fd;
}

/* The emulated dma-buf is the memory's file, at its place; see driver/emulator/memory/dma_buf.c. */
static void expect_bytes(int fd, unsigned char byte, uint64_t n_bytes)
{
        off_t start = lseek(fd, 0, SEEK_CUR);
        CLEANUP(freep)
        unsigned char *found = malloc(n_bytes);
        uint64_t n_right = 0;

        ck_assert_ptr_nonnull(found);
        ck_assert_int_ge(start, 0);
        ck_assert_int_eq(pread(fd, found, n_bytes, start), (ssize_t)n_bytes);
        for (uint64_t i = 0; i < n_bytes; i++)
                n_right += found[i] == byte;
        ck_assert_uint_eq(n_right, n_bytes);
}

static void fill(void *pointer, unsigned char byte, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_fill(gpu, pointer, byte, n_bytes), 0);
        ck_assert_int_eq(gpu_synchronize(gpu), 0);
}

static const uint32_t exported[] = {GPUMEM_REGISTERED, GPUMEM_RDMA,
                                    GPUMEM_REGISTERED | GPUMEM_SHAREABLE};

TEST(a_dma_buf_has_the_same_bytes, .to = ARRAY_SIZE(exported), NEEDS_EMULATOR)
{
        char *memory = alloc(GPUMEM_DEVICE, N_BYTES, exported[_i]);
        int fd = export(memory, N_BYTES);

        fill(memory, 0x5a, N_BYTES);
        expect_bytes(fd, 0x5a, N_BYTES);
        fill(memory, 0xa5, N_BYTES);
        expect_bytes(fd, 0xa5, N_BYTES);
        must_free(memory);
        closep(&fd);
}

/* As a GPU's driver keeps it. Who has the memory next has other bytes. */
TEST(memory_stays_with_its_dma_buf, NEEDS_EMULATOR)
{
        char *memory = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED), *next;
        uint64_t n_free, n_before, n_total;
        int fd = export(memory, N_BYTES);

        fill(memory, 0x5a, N_BYTES);
        ck_assert_int_eq(gpu_memory(gpu, &n_before, &n_total), 0);
        must_free(memory);
        daemon_await(FIGURE_reserved, 0);
        ck_assert_int_eq(gpu_memory(gpu, &n_free, &n_total), 0);
        ck_assert_uint_eq(n_free, n_before);
        next = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED);
        fill(next, 0x11, N_BYTES);
        expect_bytes(fd, 0x5a, N_BYTES);
        must_free(next);
        closep(&fd);
}

/* Whole pages of the allocation, and nothing beyond it. */
TEST(a_part_is_exported_by_pages)
{
        char *memory = alloc(GPUMEM_DEVICE, N_BYTES + 1, GPUMEM_REGISTERED);
        int part = export(memory + 4096, 4096), byte = export(memory + N_BYTES, 1),
            all = export(memory, N_BYTES + 1);

        closep(&part);
        closep(&byte);
        closep(&all);
        must_free(memory);
}

static void refuse(const void *pointer, uint64_t n_bytes, int code, const char *part)
{
        int fd = UNTOUCHED;

        ck_assert_int_eq(gpumem_export_dmabuf(client, pointer, n_bytes, &fd), code);
        ck_assert_int_eq(fd, UNTOUCHED);
        must_say(part);
}

TEST(a_wrong_range_is_refused)
{
        char *memory = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED);

        refuse(memory, 0, GPUMEM_E_BAD_REQUEST, "n_bytes is 0");
        refuse(memory, N_BYTES + 1, GPUMEM_E_BAD_REQUEST, "1 to 3145728");
        refuse(memory + 4096, N_BYTES, GPUMEM_E_BAD_REQUEST, "1 to 3141632");
        refuse(memory, UINT64_MAX, GPUMEM_E_BAD_REQUEST, "n_bytes is");
        refuse(memory + 512, 4096, GPUMEM_E_BAD_REQUEST, "multiple of 4096");
        /* The block goes on behind the allocation. */
        refuse(memory + N_BYTES, 4096, GPUMEM_E_NOT_OURS, "not an allocation");
        must_free(memory);
        refuse(memory, N_BYTES, GPUMEM_E_NOT_OURS, "not an allocation");
        refuse(NULL, N_BYTES, GPUMEM_E_NOT_OURS, "not an allocation");
}

TEST(other_memory_is_not_exported)
{
        char *plain = alloc(GPUMEM_DEVICE, N_BLOCK, 0);
        char *shareable = alloc(GPUMEM_DEVICE, N_BLOCK, GPUMEM_SHAREABLE);
        char *pinned = alloc(GPUMEM_PINNED, N_BLOCK, GPUMEM_REGISTERED);
        char *both = alloc(GPUMEM_DEVICE, N_BLOCK, GPUMEM_REGISTERED | GPUMEM_SHAREABLE);
        struct gpumem_token token;
        void *attached;
        uint64_t n_bytes;

        ck_assert_int_eq(gpumem_share(client, both, NULL, &token), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &attached, &n_bytes), 0);
        refuse(plain, N_BLOCK, GPUMEM_E_UNSUPPORTED, "block that is reused");
        refuse(plain + 4096, 4096, GPUMEM_E_UNSUPPORTED, "GPUMEM_REGISTERED");
        refuse(shareable, N_BLOCK, GPUMEM_E_UNSUPPORTED, "without GPUMEM_REGISTERED");
        refuse(pinned, N_BLOCK, GPUMEM_E_UNSUPPORTED, "pinned");
        refuse(attached, N_BLOCK, GPUMEM_E_UNSUPPORTED, "attached");
        ck_assert_int_eq(gpumem_detach(client, attached, gpu_stream(gpu)), 0);
        must_free(plain);
        must_free(shareable);
        must_free(pinned);
        must_free(both);
}

static const struct {
        const char *fault;
        int code;
} failures[] = {{"fail=cuMemGetHandleForAddressRange:*:801\n", GPUMEM_E_UNSUPPORTED},
                {"fail=cuMemGetHandleForAddressRange:*:1\n", -EINVAL},
                {"fail=cuMemGetHandleForAddressRange:*:999\n", -EIO}};

TEST(what_the_driver_does_not_export_stays, .to = ARRAY_SIZE(failures), NEEDS_EMULATOR)
{
        char *memory = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_REGISTERED);
        int fd = UNTOUCHED;

        daemon_fault(&gpumemd, getpid(), failures[_i].fault);
        ck_assert_int_eq(gpumem_export_dmabuf(client, memory, N_BYTES, &fd), failures[_i].code);
        ck_assert_int_eq(fd, UNTOUCHED);
        if (failures[_i].code == GPUMEM_E_UNSUPPORTED)
                must_say("dma-buf");
        daemon_fault(&gpumemd, getpid(), "");
        fill(memory, 1, N_BYTES);
        must_free(memory);
}

TESTS_MAIN("registered", .limit_s = 60, .start = start, .stop = stop)
