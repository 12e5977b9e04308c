/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of device memory and their texts: memory that others keep unused, fragmentation, a device
 * without memory. */
#include "tests/live/worlds/holder.h"
#include "tests/live/worlds/solo.h"

#define STRANGER  65534
#define OTHER_UID 65533
#define POOL      (512 * MIB)
#define MINIMUM   (256 * MIB)
#define PIECE     (64 * MIB)
#define LONG_MS   20000

/* Longer than anything takes that could serve the request; or so often. */
#define WAIT_MS 2000
#define TRIES   10

static void start_with(const char *configuration)
{
        daemon_start_configured(&gpumemd, "devices=1,bytes=600MiB",
                                OPTIONS("--device-bytes", "512MiB"), configuration);
        daemon_admit_all(&gpumemd);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
}

static void stop(void)
{
        solo_close();
        gpumemd_stop_uncharged();
}

static int alloc(uint64_t n_bytes, uint32_t wait_ms, void **ret_pointer)
{
        struct gpumem_request request = request_of(GPUMEM_DEVICE, n_bytes);

        request.wait_ms = wait_ms;
        return gpumem_alloc(client, &request, ret_pointer);
}

/* All but what so many processes need not mark. */
static void await_idle(unsigned n)
{
        AWAIT(daemon_figure(FIGURE_idle) + n * PIECE >= daemon_figure(FIGURE_leased));
}

/* Until there are no more to be had. A process that is not let run gives up late what it does not use: where
 * fewer were had than ought to be, it is asked for again. */
static unsigned take_pieces(unsigned n_least)
{
        unsigned n = 0, n_refused = 0;
        void *pointer;

        while (!n_refused || (n < n_least && n_refused < TRIES)) {
                int r = alloc(PIECE, WAIT_MS, &pointer);

                ck_assert(r == 0 || r == GPUMEM_E_TIMED_OUT);
                n += r == 0;
                n_refused += r != 0;
        }
        return n;
}

/* Another tenant has left most of the pool unused: how many pieces can be had of it? */
static unsigned take_all(const char *configuration, unsigned n_least, uint64_t *ret_left_bytes)
{
        struct holder holder;
        unsigned n;

        start_with(configuration);
        holder_start_as(&holder, STRANGER);
        solo_open(OTHER_UID);
        for (unsigned i = 0; i < POOL / PIECE - 1; i++)
                ck_assert_int_eq(holder_alloc(&holder, PIECE, 0), 0);
        holder_free_all(&holder);
        await_idle(1);
        n = take_pieces(n_least);
        *ret_left_bytes = daemon_figure(FIGURE_leased) - n * PIECE;
        if (*ret_left_bytes >= MINIMUM) {
                must_say("this request may not take the idle memory, or not yet. Held by ");
                must_say("other tenants ");
                /* Its own processes are not kept from it. */
                ck_assert_int_eq(holder_alloc(&holder, MINIMUM - PIECE, LONG_MS), 0);
        }
        holder_end(&holder);
        return n;
}

TEST(a_tenant_keeps_its_minimum, NEEDS_ROOT)
{
        uint64_t n_left_bytes;

        ck_assert_uint_le(
                take_all("{\"pools\": [{\"device\": \"all\", \"min_bytes\": \"256MiB\"}]}\n",
                         (POOL - MINIMUM) / PIECE - 1, &n_left_bytes),
                (POOL - MINIMUM) / PIECE);
        ck_assert_uint_ge(n_left_bytes, MINIMUM);
        ck_assert_uint_lt(n_left_bytes, MINIMUM + 2 * PIECE);
}

/* But for what it need not mark. */
TEST(without_one_it_keeps_next_to_nothing, NEEDS_ROOT)
{
        uint64_t n_left_bytes;

        ck_assert_uint_ge(take_all("{}\n", POOL / PIECE - 2, &n_left_bytes), POOL / PIECE - 2);
        ck_assert_uint_le(n_left_bytes, 2 * PIECE);
}

/* What was taken from it is counted on for a second only. */
TEST(a_stopped_process_holds_nobody_up, NEEDS_ROOT)
{
        struct holder stopped, other;
        void *pointer;

        start_with("{}\n");
        holder_start_as(&stopped, STRANGER);
        holder_start_as(&other, OTHER_UID);
        solo_open(geteuid());
        for (unsigned i = 0; i < 3; i++)
                ck_assert_int_eq(holder_alloc(&stopped, PIECE, 0), 0);
        holder_free_all(&stopped);
        await_idle(1);
        holder_stop(&stopped);
        for (unsigned i = 0; i < 4; i++)
                ck_assert_int_eq(holder_alloc(&other, PIECE, LONG_MS), 0);
        holder_free_all(&other);
        await_idle(2);
        ck_assert_int_eq(alloc(2 * PIECE, LONG_MS, &pointer), 0);
        ck_assert_uint_gt(daemon_figure(FIGURE_lingering), 0);
        holder_continue(&stopped);
        daemon_await(FIGURE_lingering, 0);
        holder_end(&stopped);
        holder_end(&other);
}

TEST(free_memory_in_pieces_is_told_as_such)
{
        void *pointers[POOL / MIB], *pointer;
        unsigned n = 0;

        start_with("{}\n");
        solo_open(geteuid());
        while (n < ARRAY_SIZE(pointers) && alloc(MIB, 0, &pointers[n]) == 0)
                n++;
        for (unsigned i = 0; i < n; i += 2)
                must_free(pointers[i]);
        ck_assert_int_eq(alloc(PIECE, WAIT_MS, &pointer), GPUMEM_E_TIMED_OUT);
        must_say("64.00 MiB asked: free memory is inside blocks that processes hold. Held by ");
        must_say(". To do: request smaller sizes, or have a holder empty a block, or "
                 "gpumem_flush");
        for (unsigned i = 1; i < n; i += 2)
                must_free(pointers[i]);
        ck_assert_int_eq(alloc(PIECE, LONG_MS, &pointer), 0);
}

TEST(a_full_device_is_told_as_such, .to = 2, NEEDS_EMULATOR)
{
        void *pointer;

        start_with("{}\n");
        solo_open(geteuid());
        daemon_fault(&gpumemd, gpumemd.pid, "fail=cuMemCreate:*:2");
        ck_assert_int_eq(alloc(PIECE, _i ? WAIT_MS : 0, &pointer), GPUMEM_E_DEVICE_FULL);
        must_say(
                "64.00 MiB asked: the driver has not enough memory. To do: see what else is on the "
                "device");
        daemon_fault(&gpumemd, gpumemd.pid, "");
        ck_assert_int_eq(alloc(PIECE, LONG_MS, &pointer), 0);
}

/* What the refusal left is what was there: nothing more is held from the driver, or charged. */
static void must_take_nothing(uint64_t n_bytes, int outcome)
{
        uint64_t n_reserved = daemon_figure(FIGURE_reserved), n_charged;
        void *pointer;

        n_charged = daemon_figure(FIGURE_charged);
        ck_assert_int_eq(alloc(n_bytes, 0, &pointer), outcome);
        AWAIT(daemon_figure(FIGURE_reserved) == n_reserved);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), n_charged);
}

/* Alone, and beside memory that the client has in use. */
TEST(a_request_above_its_limit_takes_nothing, .to = 2)
{
        void *pointer;

        daemon_start_configured(&gpumemd, "devices=1,bytes=4GiB", NULL,
                                "{\"limits\": {\"tenant\": {\"device_bytes\": \"2GiB\"}}}\n");
        daemon_admit_all(&gpumemd);
        ck_assert_int_eq(unsetenv("GPUMEM_CACHE_SIZE"), 0);
        solo_open(geteuid());
        if (_i)
                ck_assert_int_eq(alloc(PIECE, 0, &pointer), 0);
        must_take_nothing(3 * GIB, GPUMEM_E_LIMIT);
        must_take_nothing(2 * GIB + 2 * MIB, GPUMEM_E_LIMIT);
        must_take_nothing(2 * GIB - (_i ? MIB : 0) + MIB, GPUMEM_E_LIMIT);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), _i);
        ck_assert_int_eq(alloc(GIB, 0, &pointer), 0);
}

TEST(a_request_in_a_full_pool_takes_nothing, NEEDS_ROOT)
{
        struct holder holder;
        uint64_t n_creates;
        void *pointer;

        start_with("{}\n");
        holder_start_as(&holder, STRANGER);
        solo_open(OTHER_UID);
        ck_assert_int_eq(holder_alloc(&holder, POOL / 2, 0), 0);
        n_creates = daemon_figure(FIGURE_creates);
        must_take_nothing(POOL / 2 + PIECE, GPUMEM_E_REFUSED);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), n_creates);
        ck_assert_int_eq(alloc(POOL / 2, 0, &pointer), 0);
        holder_end(&holder);
}

/* The first two of its blocks are made, and no other one. */
TEST(a_request_that_the_driver_ends_takes_nothing, NEEDS_EMULATOR)
{
        char faults[20 * 32] = "";
        void *pointer;

        start_with("{}\n");
        solo_open(geteuid());
        for (unsigned i = 3; i < 20; i++) {
                size_t length = strlen(faults);

                (void)snprintf(&faults[length], sizeof(faults) - length, "fail=cuMemCreate:%u:2\n",
                               i);
        }
        daemon_fault(&gpumemd, gpumemd.pid, faults);
        must_take_nothing(POOL, GPUMEM_E_DEVICE_FULL);
        ck_assert_uint_eq(daemon_figure(FIGURE_creates), 2);
        daemon_fault(&gpumemd, gpumemd.pid, "");
        ck_assert_int_eq(alloc(POOL, 0, &pointer), 0);
}

/* Another process of the user, or of another one. */
TEST(who_holds_memory_is_told_and_may_answer, .to = 2, NEEDS_ROOT)
{
        struct holder holder;
        void *pointer;

        start_with("{}\n");
        holder_start_as(&holder, _i ? STRANGER : OTHER_UID);
        solo_open(OTHER_UID);
        ck_assert_int_eq(holder_alloc(&holder, POOL - PIECE, 0), 0);
        holder_begin_answer(&holder);
        ck_assert_int_eq(alloc(2 * PIECE, LONG_MS, &pointer), 0);
        ck_assert_uint_eq(holder_end_answer(&holder), 1);
        holder_end(&holder);
}

/* One that does not wait is refused, after the others were told. */
TEST(who_holds_memory_is_told_before_a_refusal, NEEDS_ROOT)
{
        struct holder holder;
        void *pointer;

        start_with("{}\n");
        holder_start_as(&holder, STRANGER);
        solo_open(OTHER_UID);
        ck_assert_int_eq(holder_alloc(&holder, POOL - PIECE, 0), 0);
        holder_begin_answer(&holder);
        ck_assert_int_eq(alloc(2 * PIECE, 0, &pointer), GPUMEM_E_REFUSED);
        ck_assert_uint_eq(holder_end_answer(&holder), 1);
        ck_assert_int_eq(alloc(2 * PIECE, LONG_MS, &pointer), 0);
        holder_end(&holder);
}

TESTS_MAIN("refusals", .limit_s = 60, .stop = stop)
