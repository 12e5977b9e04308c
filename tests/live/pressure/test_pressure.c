/* SPDX-License-Identifier: Apache-2.0 */
/* A full pool with several tenants: what those are told that are refused. After each test nothing is charged, and the
 * daemon has as many fds open as before. */
#include "proto/board.h"
#include "tests/live/support/world.h"

#define STRANGER  65534
#define OTHER_UID 65533

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB",
                     OPTIONS("--device-bytes", "32MiB", "--pinned-bytes", "8MiB"));
        daemon_note_fds(&gpumemd);
        daemon_admit_all(&gpumemd);
}

struct party {
        struct member own;
        uint64_t leases[16];
        unsigned n_leases;
};

/* The kernel tells the daemon which user has connected. */
static struct party join(uid_t uid, const char *program)
{
        struct party party = {.n_leases = 0};

        ck_assert_int_eq(seteuid(uid), 0);
        party.own = member_join(program);
        ck_assert_int_eq(seteuid(0), 0);
        return party;
}

static int lease_from(const struct party *party, uint32_t pool, uint64_t n_bytes, uint32_t wait_ms,
                      uint64_t *ret_lease)
{
        const struct message_lease wanted = {.pool = pool, .n_bytes = n_bytes, .wait_ms = wait_ms};
        struct message_leased leased;
        int r = lease_over(party->own.link, &wanted, &leased);

        if (!r)
                *ret_lease = leased.lease;
        return r;
}

static void must_lease_from(struct party *party, uint32_t pool, uint64_t n_bytes)
{
        ck_assert_uint_lt(party->n_leases, ARRAY_SIZE(party->leases));
        ck_assert_int_eq(lease_from(party, pool, n_bytes, 0, &party->leases[party->n_leases++]), 0);
}

static void must_lease(struct party *party, uint64_t n_bytes)
{
        must_lease_from(party, 0, n_bytes);
}

/* The process goes on: blocks that it still had would be charged to it. */
static void leave(struct party *party)
{
        while (party->n_leases)
                return_over(party->own.link, party->leases[--party->n_leases],
                            PROTO_RETURN_UNMAPPED);
        member_end(&party->own);
}

static void must_be_refused(const struct party *party, uint64_t n_bytes, uint32_t wait_ms,
                            char text[static LINK_REFUSAL_MAX])
{
        uint64_t id;

        ck_assert_int_eq(lease_from(party, 0, n_bytes, wait_ms, &id),
                         wait_ms ? GPUMEM_E_TIMED_OUT : GPUMEM_E_REFUSED);
        link_refusal(party->own.link, text);
}

static const char *holder(const char *program, const char *n_bytes)
{
        static char text[80];

        (void)snprintf(text, sizeof(text), "%s (pid %d, this process itself) %s", program,
                       (int)getpid(), n_bytes);
        return text;
}

TEST(who_holds_it_is_told_within_a_tenant, NEEDS_ROOT)
{
        struct party small = join(STRANGER, "small"), large = join(STRANGER, "large");
        struct party other = join(OTHER_UID, "secret"), root = join(0, "root");
        char text[LINK_REFUSAL_MAX];

        must_lease(&small, 4 * MIB);
        must_lease(&large, 16 * MIB);
        must_lease(&other, 10 * MIB);
        must_be_refused(&small, 4 * MIB, 0, text);
        must_contain(text, "30.00 MiB of 32.00 MiB reserved");
        must_contain(text, "2.00 MiB can be had; 4.00 MiB asked: the pool is full. Held by ");
        must_contain(text, holder("large", "16.00 MiB, small (pid "));
        must_contain(text, holder("small", "4.00 MiB, other tenants 10.00 MiB"));
        must_contain(text, "To do: free memory first, wait (wait_ms), or end another holder");
        ck_assert_ptr_null(strstr(text, "secret"));
        must_be_refused(&other, 4 * MIB, 0, text);
        must_contain(text, "other tenants 20.00 MiB");
        ck_assert_ptr_null(strstr(text, "large"));
        must_be_refused(&root, 4 * MIB, 0, text);
        must_contain(text, holder("secret", "10.00 MiB"));
        leave(&small);
        leave(&large);
        leave(&other);
        leave(&root);
}

TEST(the_largest_few_are_named, NEEDS_ROOT)
{
        static const char *const names[] = {"first", "second", "third", "fourth", "fifth"};
        struct party parties[ARRAY_SIZE(names)];
        char text[LINK_REFUSAL_MAX];

        for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
                parties[i] = join(STRANGER, names[i]);
                must_lease(&parties[i], (10 - 2 * i) * MIB);
        }
        must_be_refused(&parties[0], 4 * MIB, 0, text);
        must_contain(text, holder("first", "10.00 MiB"));
        must_contain(text, holder("second", "8.00 MiB"));
        must_contain(text, holder("third", "6.00 MiB, 2 more 6.00 MiB."));
        for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
                leave(&parties[i]);
}

/* Requests in vain until only revoked memory that is still mapped is in the way. A daemon that stands still
 * meanwhile may find the request late before it has searched. The refusal after this is certain. */
static void ask_until_that_lingers(const struct party *asker, uint64_t n_bytes,
                                   uint64_t n_lingering)
{
        uint64_t id;

        do
                ck_assert_int_eq(lease_from(asker, 0, n_bytes, 50, &id), GPUMEM_E_TIMED_OUT);
        while (daemon_figure(FIGURE_lingering) != n_lingering);
}

/* So much is leased, returned, and not unmapped yet. */
static uint64_t return_mapped(struct party *party, uint64_t n_bytes)
{
        uint64_t lease;

        must_lease(party, n_bytes);
        lease = party->leases[--party->n_leases];
        return_over(party->own.link, lease, 0);
        daemon_await(FIGURE_cached, n_bytes);
        return lease;
}

/* The party's last lease is idle now. */
static void mark_idle_keeping(const struct party *party)
{
        uint64_t id = party->leases[party->n_leases - 1];
        unsigned slot = 0;

        while (!board_step(&party->own.words[slot], id, BOARD_BUSY, BOARD_IDLE))
                slot++;
}

/* It will be taken. */
static void mark_idle(struct party *party)
{
        mark_idle_keeping(party);
        party->n_leases--;
}

/* To one that does not wait for it. */
TEST(memory_that_is_idle_is_told, NEEDS_ROOT)
{
        struct party holder = join(STRANGER, "holder"), asker = join(OTHER_UID, "asker");
        char text[LINK_REFUSAL_MAX];

        must_lease(&holder, 4 * MIB);
        must_lease(&holder, 24 * MIB);
        mark_idle_keeping(&holder);
        must_be_refused(&asker, 16 * MIB, 0, text);
        must_contain(
                text,
                "28.00 MiB of 32.00 MiB reserved, 28.00 MiB leased (24.00 MiB idle); "
                "28.00 MiB can be had; 16.00 MiB asked: this request may not take the idle memory");
        leave(&holder);
        leave(&asker);
}

/* Its unmap times out after a second. */
TEST(who_does_not_unmap_is_named, NEEDS_ROOT)
{
        struct party slow = join(STRANGER, "slow"), kin = join(STRANGER, "kin");
        struct party asker = join(OTHER_UID, "asker");
        char text[LINK_REFUSAL_MAX];
        uint64_t late;

        must_lease(&slow, 24 * MIB);
        late = slow.leases[slow.n_leases - 1];
        mark_idle(&slow);
        ask_until_that_lingers(&asker, 16 * MIB, 24 * MIB);
        must_be_refused(&asker, 16 * MIB, 1200, text);
        must_contain(text, "revoked memory is still mapped by a process that does not "
                           "answer. Held by other tenants 24.00 MiB. To do: continue or end");
        must_be_refused(&kin, 16 * MIB, 50, text);
        must_contain(text, "still mapped, 24.00 MiB of it by ");
        must_contain(text, holder("slow", "24.00 MiB"));
        must_contain(text, ", which does not answer");
        unmapped_over(slow.own.link, late);
        daemon_await(FIGURE_lingering, 0);
        must_lease(&asker, 16 * MIB);
        leave(&slow);
        leave(&kin);
        leave(&asker);
}

/* A client that returned the block itself is not told to unmap it, and is not called unresponsive. */
TEST(what_is_mapped_still_is_told_and_who_was_not_told_to_unmap_is_not_blamed, NEEDS_ROOT)
{
        struct party slow = join(STRANGER, "slow"), asker = join(OTHER_UID, "asker");
        char text[LINK_REFUSAL_MAX];
        uint64_t late = return_mapped(&slow, 24 * MIB);

        ask_until_that_lingers(&asker, 16 * MIB, 24 * MIB);
        for (uint32_t wait_ms = 50; wait_ms <= 1200; wait_ms += 1150) {
                must_be_refused(&asker, 16 * MIB, wait_ms, text);
                must_contain(text, "24.00 MiB lingering");
                must_contain(text, "revoked memory is still mapped. Held by other "
                                   "tenants 24.00 MiB. To do: wait longer");
        }
        unmapped_over(slow.own.link, late);
        daemon_await(FIGURE_lingering, 0);
        leave(&slow);
        leave(&asker);
}

static struct gpumem_event told;

static void on_event(const struct gpumem_event *event, void *argument)
{
        (void)argument;
        if (event->kind == GPUMEM_EVENT_REFUSED)
                told = *event;
}

TEST(an_application_is_told_who_holds_it)
{
        struct party hoarder = join(0, "hoarder");
        struct gpumem_request request = {.struct_size = sizeof(request),
                                         .kind = GPUMEM_PINNED,
                                         .place = GPUMEM_NEAREST,
                                         .n_bytes = 4 * MIB};
        struct gpumem_refusal refusal;
        struct gpumem_client *client;
        void *pointer;

        must_lease_from(&hoarder, hoarder.own.pinned, 8 * MIB);
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
        ck_assert_int_eq(gpumem_set_event_callback(client, on_event, NULL), 0);
        ck_assert_int_eq(gpumem_alloc(client, &request, &pointer), GPUMEM_E_REFUSED);
        refusal = refusal_of(client);
        must_contain(refusal.text, holder("hoarder", "8.00 MiB"));
        must_contain(refusal.text, "4.00 MiB asked");
        must_contain(refusal.text, "To do: ");
        ck_assert_int_eq(told.result, GPUMEM_E_REFUSED);
        ck_assert_str_eq(told.text, refusal.text);
        gpumem_disconnect(client);
        leave(&hoarder);
}

TESTS_MAIN("pressure", .limit_s = 60, .start = start, .stop = gpumemd_stop_empty)
