/* SPDX-License-Identifier: Apache-2.0 */
/* The sharing functions one by one, in one process: their results, their statistics, and what a client
 * cannot do by messages of its own. After each test nothing is charged, nothing is reserved, and both sides
 * have as many fds open as before. */
#include <pthread.h>

#include "tests/demo/share_memory.h"
#include "tests/live/support/listed.h"
#include "tests/live/worlds/solo.h"

#define N_BYTES (3 * MIB)

static unsigned n_own_fds;

static void start_with(const char *emulator)
{
        daemon_start(&gpumemd, emulator,
                     OPTIONS("--pinned-bytes", "64MiB", "--device-bytes", "256MiB"));
        gpu = use_gpu();
        daemon_note_fds(&gpumemd);
        n_own_fds = own_fds();
        client = connect_client();
}

static void start(void)
{
        start_with("devices=1,bytes=256MiB");
}

static void start_slow(void)
{
        start_with("devices=1,bytes=256MiB,copy_delay_us=300000");
}

static void start_slow_two(void)
{
        start_with("devices=2,bytes=256MiB,copy_delay_us=300000");
}

static void stop(void)
{
        gpumem_disconnect(client);
        ck_assert_uint_eq(own_fds(), n_own_fds);
        gpu_free(gpu);
        gpumemd_stop_empty();
}

static const struct test_case lost = {.name = "lost", .limit_s = 60, .start = start};
static const struct test_case slow = {
        .name = "slow", .limit_s = 60, .start = start_slow, .stop = stop};
static const struct test_case slow_two = {
        .name = "slow_two", .limit_s = 60, .start = start_slow_two, .stop = stop};
static const struct test_case alone = {.name = "alone"};

static void *alloc(enum gpumem_kind kind, uint64_t n_bytes, uint32_t flags)
{
        struct gpumem_request request = request_of(kind, n_bytes);
        void *pointer;

        request.flags |= flags;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

/* Device memory of another GPU, in its stream. */
static void *alloc_in(const struct gpu *other)
{
        const struct gpumem_request request = {.struct_size = sizeof(request),
                                               .kind = GPUMEM_DEVICE,
                                               .flags = GPUMEM_SHAREABLE,
                                               .stream = gpu_stream(other),
                                               .n_bytes = N_BYTES};
        void *pointer;

        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), 0);
        return pointer;
}

static struct gpumem_token token_of(const void *pointer)
{
        struct gpumem_token token;

        ck_assert_int_eq(gpumem_share(client, pointer, NULL, &token), 0);
        return token;
}

static void *attach(const struct gpumem_token *token)
{
        uint64_t n_bytes;
        void *pointer;

        ck_assert_int_eq(gpumem_attach(client, token, &pointer, &n_bytes), 0);
        ck_assert_uint_eq(n_bytes, N_BYTES);
        return pointer;
}

static void must_detach(void *pointer)
{
        ck_assert_int_eq(gpumem_detach(client, pointer, gpu_stream(gpu)), 0);
}

TEST(a_shareable_allocation_has_a_block_of_its_own)
{
        char *small = alloc(GPUMEM_DEVICE, 1000, 0);
        char *shareable = alloc(GPUMEM_DEVICE, 1000, GPUMEM_SHAREABLE);
        char *another = alloc(GPUMEM_DEVICE, 1000, GPUMEM_SHAREABLE);

        ck_assert_uint_eq((uintptr_t)shareable % (2 * MIB), 0);
        ck_assert_uint_eq((uintptr_t)another % (2 * MIB), 0);
        ck_assert_uint_eq(device_stats().n_blocks, 3);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 6 * MIB);
        ck_assert_uint_eq(device_stats().n_requested_bytes, 3000);
        ck_assert_uint_eq(device_stats().n_allocated_bytes, 3072);
        ck_assert_uint_eq(device_stats().n_misses, 3);
        ck_assert_uint_eq(daemon_figure(FIGURE_allocated), 3072);
        must_free(shareable);
        ck_assert_int_eq(gpumem_free_sync(client, another), 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_cached), 0);
        ck_assert_uint_eq(device_stats().n_blocks, 1);
        ck_assert_uint_eq(device_stats().n_requested_bytes, 1000);
        must_free(small);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
}

TEST(holders_are_listed)
{
        char *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token = token_of(own);
        struct gpumem_client *first = client;
        uint64_t n_leased = 0, n_attached = 0;
        struct listed listed;
        void *attached;

        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        attached = attach(&token);
        listed = listed_now(MESSAGE_BLOCKS);
        ck_assert_uint_eq(listed.n_rows, 1);
        ck_assert_uint_eq(listed.blocks[0].holders, 2);
        listed_free(&listed);
        listed = listed_now(MESSAGE_CLIENTS);
        for (uint32_t i = 0; i < listed.n_rows; i++) {
                ck_assert(!listed.clients[i].device_leased || !listed.clients[i].device_attached);
                n_leased += listed.clients[i].device_leased;
                n_attached += listed.clients[i].device_attached;
        }
        listed_free(&listed);
        ck_assert_uint_eq(n_leased, 4 * MIB);
        ck_assert_uint_eq(n_attached, 4 * MIB);
        must_detach(attached);
        gpumem_disconnect(client);
        client = first;
        must_free(own);
}

/* Each attach has a pointer, a lease and an end of its own; none of them is charged again. */
TEST(a_hundred_attaches, .to = 2)
{
        enum gpumem_kind kind = _i ? GPUMEM_PINNED : GPUMEM_DEVICE;
        struct share_memory memory = {.gpu = _i ? NULL : gpu, .n_bytes = N_BYTES};
        void *own = alloc(kind, N_BYTES, GPUMEM_SHAREABLE), *attached[100];
        struct gpumem_token token = token_of(own);
        uint64_t n_wrong;

        for (unsigned i = 0; i < 100; i++)
                attached[i] = attach(&token);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 101);
        ck_assert_uint_eq(daemon_figure(FIGURE_reserved), 4 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 4 * MIB);
        ck_assert_uint_eq(device_stats().n_requested_bytes, _i ? 0 : N_BYTES);
        memory.bytes = attached[99];
        ck_assert_int_eq(share_memory_fill(&memory, 9), 0);
        must_free(own);
        for (unsigned i = 0; i < 100; i++) {
                memory.bytes = attached[i];
                ck_assert_int_eq(share_memory_check(&memory, 9, &n_wrong), 0);
                ck_assert_uint_eq(n_wrong, 0);
                must_detach(attached[i]);
        }
        daemon_await(FIGURE_reserved, 0);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 1);
}

TEST(what_is_left_is_given_back_at_the_end)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE);
        void *pinned = alloc(GPUMEM_PINNED, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token = token_of(own), pinned_token = token_of(pinned);

        (void)attach(&token);
        (void)attach(&pinned_token);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 4);
}

TEST(pointers_are_told_apart)
{
        char *plain = alloc(GPUMEM_DEVICE, N_BYTES, 0), here;
        char *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE), *attached;
        struct gpumem_token token = token_of(own), untouched = token;
        void *stream = gpu_stream(gpu);

        attached = attach(&token);
        ck_assert_int_eq(gpumem_free(client, attached, stream), GPUMEM_E_ATTACHED);
        ck_assert_int_eq(gpumem_free_sync(client, attached), GPUMEM_E_ATTACHED);
        ck_assert_int_eq(gpumem_detach(client, own, stream), GPUMEM_E_NOT_ATTACHED);
        ck_assert_int_eq(gpumem_detach(client, plain, stream), GPUMEM_E_NOT_ATTACHED);
        ck_assert_int_eq(gpumem_detach(client, &here, stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach(client, attached + 512, stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_free(client, own + 512, stream), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach(client, NULL, NULL), 0);
        ck_assert_int_eq(gpumem_detach_sync(client, own), GPUMEM_E_NOT_ATTACHED);
        ck_assert_int_eq(gpumem_detach_sync(client, plain), GPUMEM_E_NOT_ATTACHED);
        ck_assert_int_eq(gpumem_detach_sync(client, &here), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach_sync(client, attached + 512), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_detach_sync(client, NULL), 0);
        /* A GPU's driver may crash on it. */
        if (machine_is_emulated())
                ck_assert_int_eq(gpumem_detach(client, attached, (void *)0x123456), -EINVAL);
        ck_assert_int_eq(gpumem_share(client, plain, NULL, &token), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_int_eq(gpumem_share(client, attached, NULL, &token), GPUMEM_E_NOT_SHAREABLE);
        ck_assert_int_eq(gpumem_share(client, &here, NULL, &token), GPUMEM_E_NOT_OURS);
        ck_assert_int_eq(gpumem_share(client, own + 512, NULL, &token), GPUMEM_E_NOT_OURS);
        ck_assert_mem_eq(&token, &untouched, sizeof(token));
        must_detach(attached);
        ck_assert_int_eq(gpumem_detach(client, attached, stream), GPUMEM_E_NOT_OURS);
        must_free(own);
        ck_assert_int_eq(gpumem_free(client, own, stream), GPUMEM_E_NOT_OURS);
        must_free(plain);
}

TEST(share_options_are_checked)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_share_options options = {.struct_size = sizeof(options)};
        struct gpumem_token token;

        ck_assert_int_eq(gpumem_share(client, own, &options, &token), 0);
        options.flags = 2;
        ck_assert_int_eq(gpumem_share(client, own, &options, &token), GPUMEM_E_UNSUPPORTED);
        must_say("flags are 0x");
        options.flags = GPUMEM_SHARE_GRANT;
        options.uid = UINT32_MAX;
        ck_assert_int_eq(gpumem_share(client, own, &options, &token), GPUMEM_E_BAD_REQUEST);
        must_say("uid is -1");
        options.struct_size = 3;
        ck_assert_int_eq(gpumem_share(client, own, &options, &token), -EINVAL);
        must_say("struct_size is ");
        for (unsigned i = 1; i < 64; i++)
                ck_assert_int_eq(gpumem_share(client, own, NULL, &token), 0);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &token), GPUMEM_E_TOO_MANY);
        ck_assert_int_eq(gpumem_unshare(client, &token), 0);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &token), 0);
        must_free(own);
}

/* Every bit of a token counts. */
TEST(a_wrong_guess_attaches_nothing)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE), *untouched = own;
        void *pointer = untouched;
        struct gpumem_token token = token_of(own), wrong = {{0}};
        uint64_t n_bytes = 1;

        ck_assert_int_eq(try_alloc(GPUMEM_DEVICE, 0, &pointer), GPUMEM_E_BAD_REQUEST);
        ck_assert_int_eq(gpumem_attach(client, &wrong, &pointer, &n_bytes), GPUMEM_E_NO_TOKEN);
        last_refusal_says(client, GPUMEM_E_NO_TOKEN, "unknown or revoked token");
        ck_assert_int_eq(refusal_of(client).kind, 0);
        for (unsigned bit = 0; bit < 128; bit++) {
                wrong = token;
                wrong.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                ck_assert_int_eq(gpumem_attach(client, &wrong, &pointer, &n_bytes),
                                 GPUMEM_E_NO_TOKEN);
                ck_assert_int_eq(gpumem_unshare(client, &wrong), GPUMEM_E_NO_TOKEN);
        }
        ck_assert_ptr_eq(pointer, untouched);
        ck_assert_uint_eq(n_bytes, 1);
        must_detach(attach(&token));
        must_free(own);
        ck_assert_int_eq(gpumem_attach(client, &token, &pointer, &n_bytes), GPUMEM_E_NO_TOKEN);
}

/* Attached memory is unmapped after the work that was enqueued on it, on this side. */
TEST(without_a_context)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE), *pointer;
        void *pinned = alloc(GPUMEM_PINNED, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token = token_of(own), pinned_token = token_of(pinned);
        uint64_t n_bytes;

        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &pointer, &n_bytes), GPUMEM_E_NO_CONTEXT);
        ck_assert_uint_eq(daemon_figure(FIGURE_leases), 2);
        pointer = attach(&pinned_token);
        memset(pointer, 1, n_bytes = N_BYTES);
        ck_assert_int_eq(gpumem_detach(client, pointer, NULL), 0);
        ck_assert_int_eq(gpumem_free(client, own, NULL), GPUMEM_E_NO_CONTEXT);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_uint_eq(((unsigned char *)pinned)[N_BYTES - 1], 1);
        must_free(own);
        must_free(pinned);
}

/* The caller names no stream, and has no context. */
TEST(a_detach_waits_for_all_work, .in = &slow, NEEDS_EMULATOR)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE), *attached, *staged;
        struct gpumem_token token = token_of(own);
        unsigned char *seen;

        ck_assert_int_eq(gpu_stage(gpu, 1, &staged), 0);
        seen = staged;
        *seen = 0;
        attached = attach(&token);
        ck_assert_int_eq(gpu_fill(gpu, attached, 1, N_BYTES), 0);
        ck_assert_int_eq(gpu_copy_to_host(gpu, seen, attached, 1), 0);
        ck_assert_int_eq(gpu_use_none(gpu), 0);
        ck_assert_int_eq(gpumem_detach_sync(client, attached), 0);
        ck_assert_uint_eq(*seen, 1);
        ck_assert_int_eq(gpu_use(gpu), 0);
        must_free(own);
}

/* The work is the memory's device's, and the thread has another device's context from the attach on. */
TEST(a_detach_waits_for_the_memorys_device, .in = &slow_two, NEEDS_EMULATOR)
{
        void *own, *attached, *staged;
        struct gpumem_token token;
        struct gpu *other;
        unsigned char *seen;

        ck_assert_int_eq(gpu_new(1, &other), 0);
        own = alloc_in(other);
        token = token_of(own);
        ck_assert_int_eq(gpu_stage(other, 1, &staged), 0);
        seen = staged;
        *seen = 0;
        ck_assert_int_eq(gpu_use(gpu), 0);
        attached = attach(&token);
        ck_assert_int_eq(gpu_use(other), 0);
        ck_assert_int_eq(gpu_fill(other, attached, 1, N_BYTES), 0);
        ck_assert_int_eq(gpu_copy_to_host(other, seen, attached, 1), 0);
        ck_assert_int_eq(gpu_use(gpu), 0);
        ck_assert_int_eq(gpumem_detach_sync(client, attached), 0);
        ck_assert_uint_eq(*seen, 1);
        ck_assert_int_eq(gpumem_free_sync(client, own), 0);
        gpu_free(other);
        ck_assert_int_eq(gpu_use(gpu), 0);
}

TEST(a_forked_child_shares_nothing)
{
        void *own = alloc(GPUMEM_PINNED, N_BYTES, GPUMEM_SHAREABLE), *pointer;
        struct gpumem_token token = token_of(own);
        uint64_t n_bytes;
        pid_t pid = fork();

        if (pid == 0)
                _exit(gpumem_share(client, own, NULL, &token) != GPUMEM_E_FORKED ||
                      gpumem_attach(client, &token, &pointer, &n_bytes) != GPUMEM_E_FORKED ||
                      gpumem_detach(client, own, NULL) != GPUMEM_E_FORKED ||
                      gpumem_detach_sync(client, own) != GPUMEM_E_FORKED ||
                      gpumem_unshare(client, &token) != GPUMEM_E_FORKED);
        child_await(pid, 0);
        must_free(own);
}

#define THREADS 4
#define ROUNDS  100

static void *churn(void *argument)
{
        const struct gpumem_token *token = argument;

        ck_assert_int_eq(gpu_use(gpu), 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
                void *pointer = attach(token);
                void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE);

                must_detach(pointer);
                must_free(own);
        }
        return NULL;
}

TEST(threads_attach_and_detach)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE);
        struct gpumem_token token = token_of(own);
        pthread_t threads[THREADS];

        for (unsigned i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &token), 0);
        for (unsigned i = 0; i < THREADS; i++)
                ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 4 * MIB);
        must_free(own);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
}

TEST(a_full_pool_refuses_what_is_to_be_shared_too)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, 2 * MIB);
        void *all = alloc(GPUMEM_DEVICE, 256 * MIB, GPUMEM_SHAREABLE), *pointer;

        request.flags |= GPUMEM_SHAREABLE;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_REFUSED);
        request.n_bytes = UINT64_MAX;
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_TOO_LARGE);
        must_free(all);
}

/* Whether there are addresses for it or not; the same text as for what is not shared. */
TEST(what_no_pool_holds_is_too_large_to_be_shared, .to = 2)
{
        static const uint64_t sizes[] = {256 * MIB + 1, 8 * TIB, UINT64_MAX};
        struct gpumem_refusal refusals[2];
        void *pointer;

        for (unsigned i = 0; i < 2; i++) {
                struct gpumem_request request = request_of(_i ? GPUMEM_PINNED : GPUMEM_DEVICE, 0);

                request.flags = i ? GPUMEM_SHAREABLE : 0;
                for (unsigned j = 0; j < ARRAY_SIZE(sizes); j++) {
                        request.n_bytes = sizes[j];
                        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer),
                                         GPUMEM_E_TOO_LARGE);
                }
                refusals[i] = refusal_of(client);
        }
        must_contain(refusals[0].text, "requested; all of");
        ck_assert_str_eq(refusals[1].text, refusals[0].text);
}

/* Memory that is held stays held; no client can attach any more. */
TEST(without_a_daemon, .in = &lost)
{
        void *own = alloc(GPUMEM_DEVICE, N_BYTES, GPUMEM_SHAREABLE), *attached, *pointer;
        struct gpumem_token token = token_of(own);
        struct share_memory memory = {.gpu = gpu, .n_bytes = N_BYTES};
        uint64_t n_wrong = 1, n_bytes;

        attached = attach(&token);
        daemon_kill(&gpumemd);
        memory.bytes = own;
        ck_assert_int_eq(share_memory_fill(&memory, 3), 0);
        memory.bytes = attached;
        ck_assert_int_eq(share_memory_check(&memory, 3, &n_wrong), 0);
        ck_assert_uint_eq(n_wrong, 0);
        ck_assert_int_eq(gpumem_attach(client, &token, &pointer, &n_bytes), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(gpumem_share(client, own, NULL, &token), GPUMEM_E_DISCONNECTED);
        ck_assert_int_eq(gpumem_unshare(client, &token), GPUMEM_E_DISCONNECTED);
        must_free(own);
        must_detach(attached);
        ck_assert_uint_eq(device_stats().n_reserved_bytes, 0);
        gpumem_disconnect(client);
        daemon_clear(&gpumemd);
}

TEST(a_token_has_a_text, .in = &alone)
{
        struct gpumem_token token, untouched;
        char text[GPUMEM_TOKEN_TEXT_BYTES];
        static const char *const wrong[] = {"",
                                            "00",
                                            "0123456789abcdef0123456789abcde",
                                            "0123456789abcdef0123456789abcdef0",
                                            "0123456789abcdef0123456789abcdeg",
                                            " 123456789abcdef0123456789abcdef",
                                            "0123456789abcde\3770123456789abcdef"};

        ck_assert_int_eq(gpumem_token_parse("0123456789abcdefFEDCBA9876543210", &token), 0);
        ck_assert_uint_eq(token.bytes[0], 0x01);
        ck_assert_uint_eq(token.bytes[15], 0x10);
        ck_assert_str_eq(gpumem_token_format(&token, text), "0123456789abcdeffedcba9876543210");
        untouched = token;
        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++)
                ck_assert_int_eq(gpumem_token_parse(wrong[i], &token), GPUMEM_E_BAD_REQUEST);
        ck_assert_mem_eq(&token, &untouched, sizeof(token));
}

TESTS_MAIN("served", .limit_s = 60, .start = start, .stop = stop)
