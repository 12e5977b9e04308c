/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: a user's processes in one container, or in none, trust each other and nobody else; and what each
 * may see and do. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/containers.h"
#include "tests/live/daemon.h"
#include "tests/live/links.h"
#include "tests/live/listed.h"
#include "tests/live/sharer.h"
#include "tests/suite.h"

#define PIECE (6 * MIB)

static struct daemon gpumemd;

/* Of those that this machine has; a loop test's number is one of these. */
static enum cgroup_tree trees[CGROUPS_N_TREES];

static int find_trees(void)
{
        int n = 0;

        for (enum cgroup_tree tree = CGROUPS_OF_V2; is_root() && tree < CGROUPS_N_TREES; tree++) {
                if (containers_can_be_made(tree))
                        trees[n++] = tree;
        }
        return n;
}

static bool has_containers(void)
{
        return find_trees() > 0;
}

static bool has_containers_and_emulator(void)
{
        return has_containers() && machine_is_emulated();
}

#define NEEDS_CONTAINERS \
        .can_run = has_containers, .needs = "root, and cgroups that may be written to"

static void start(const char *configuration)
{
        static const char *const options[] = {"--device-bytes", "64MiB", "--pinned-bytes", "64MiB",
                                              NULL};

        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB", options, configuration);
}

static void end(enum cgroup_tree tree)
{
        container_leave(tree);
        daemon_stop_empty(&gpumemd);
        containers_remove(tree);
}

#define OUTSIDE UINT32_MAX

/* A connection out of the n-th container. This process is outside again after that. */
static struct link *open_in(enum cgroup_tree tree, unsigned n)
{
        struct link *link;

        if (n != OUTSIDE)
                container_enter(tree, n);
        link = open_link("test", NULL);
        container_leave(tree);
        return link;
}

static struct message_leased must_lease(struct link *link)
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(link, &wanted, &leased), 0);
        return leased;
}

/* What is held by a process that lives is charged to it. */
#define N_HELD 4

static struct {
        struct link *link;
        uint64_t lease;
} held[N_HELD];
static unsigned n_held;

static void hold(struct link *link)
{
        ck_assert_uint_lt(n_held, N_HELD);
        held[n_held].link = link;
        held[n_held++].lease = must_lease(link).lease;
}

static void let_go(void)
{
        while (n_held) {
                n_held--;
                return_over(held[n_held].link, held[n_held].lease, PROTO_RETURN_UNMAPPED);
        }
}

/* The block's number; it is in the cache of this client's tenant after that. */
static uint64_t lease_and_return(struct link *link)
{
        struct message_leased leased = must_lease(link);
        uint64_t n_cached = daemon_figure(FIGURE_cached);

        return_over(link, leased.lease, PROTO_RETURN_UNMAPPED);
        daemon_await(FIGURE_cached, n_cached + PIECE);
        return leased.block;
}

TEST(a_container_is_a_tenant, .to = find_trees(), NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[_i];
        struct link *one, *again, *other, *outside;
        uint64_t block;

        start("{}");
        one = open_in(tree, 0);
        again = open_in(tree, 0);
        other = open_in(tree, 1);
        outside = open_in(tree, OUTSIDE);
        block = lease_and_return(one);
        ck_assert_uint_ne(lease_and_return(other), block);
        ck_assert_uint_ne(lease_and_return(outside), block);
        ck_assert_uint_eq(lease_and_return(again), block);
        link_free(one);
        link_free(again);
        /* It is there for the container, whoever is in it. */
        one = open_in(tree, 0);
        ck_assert_uint_eq(lease_and_return(one), block);
        link_free(one);
        link_free(other);
        link_free(outside);
        end(tree);
}

TEST(users_may_be_tenants_wherever_they_are, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct link *one, *other, *outside;
        uint64_t block;

        start("{\"tenants\": \"uid\"}");
        one = open_in(tree, 0);
        other = open_in(tree, 1);
        outside = open_in(tree, OUTSIDE);
        block = lease_and_return(one);
        ck_assert_uint_eq(lease_and_return(other), block);
        ck_assert_uint_eq(lease_and_return(outside), block);
        link_free(one);
        link_free(other);
        link_free(outside);
        end(tree);
}

TEST(clients_may_be_tenants)
{
        struct link *one, *other;
        struct listed listed;
        uint64_t block;

        start("{\"tenants\": \"client\"}");
        one = open_link("one", NULL);
        other = open_link("other", NULL);
        block = lease_and_return(one);
        ck_assert_uint_ne(lease_and_return(other), block);
        ck_assert_uint_eq(lease_and_return(one), block);
        listed = listed_now(MESSAGE_CLIENTS);
        ck_assert_uint_eq(listed.n_rows, 3);
        ck_assert_str_ne(listed.clients[0].container, listed.clients[1].container);
        listed_free(&listed);
        link_free(one);
        link_free(other);
        daemon_stop(&gpumemd);
}

TEST(containers_are_listed_by_their_short_names, .to = find_trees(), NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[_i];
        char id[CONTAINER_SHORT_ID_BYTES];
        struct link *link;
        struct listed listed;
        unsigned n_found = 0;

        start("{}");
        link = open_in(tree, 0);
        (void)lease_and_return(link);
        (void)container_short_id(0, id);
        listed = listed_now(MESSAGE_CLIENTS);
        for (uint32_t i = 0; i < listed.n_rows; i++)
                n_found += strcmp(listed.clients[i].container, id) == 0;
        ck_assert_uint_eq(listed.n_rows, 2);
        ck_assert_uint_eq(n_found, 1);
        listed_free(&listed);
        link_free(link);
        /* What is cached for it is listed when nobody is in it any more. */
        listed = listed_now(MESSAGE_TENANTS);
        n_found = 0;
        for (uint32_t i = 0; i < listed.n_rows; i++)
                n_found += strcmp(listed.tenants[i].container, id) == 0 &&
                           listed.tenants[i].cached == PIECE;
        ck_assert_uint_eq(n_found, 1);
        listed_free(&listed);
        end(tree);
}

static int call(struct link *link, struct frame *request, enum message_kind kind,
                enum message_kind reply_kind)
{
        struct fdset fds = FDSET_NULL;
        struct frame reply;
        int r = link_call(link, request, kind, reply_kind, &reply, &fds);

        fdset_deinit(&fds);
        return r;
}

/* GPUMEM_E_DENIED, or 0. */
static int try_to_rule(struct link *link)
{
        const struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_TENANT, .holder = 77, .kind = PROTO_LIMIT_LEASES, .max = 5};
        struct frame free_all = FRAME_NULL, reset = FRAME_NULL;
        int r = set_limit_over(link, &change, NULL);

        free_all.free_all_blocks.scope = PROTO_SCOPE_NODE;
        free_all.free_all_blocks.pool = PROTO_ALL_POOLS;
        reset.reset_peaks.scope = PROTO_SCOPE_NODE;
        reset.reset_peaks.pool = PROTO_ALL_POOLS;
        ck_assert_int_eq(call(link, &free_all, MESSAGE_FREE_ALL_BLOCKS, MESSAGE_FREED), r);
        ck_assert_int_eq(call(link, &reset, MESSAGE_RESET_PEAKS, MESSAGE_PEAKS_RESET), r);
        return r;
}

/* Whoever mounts the folder of the sockets into a container has mounted both. */
static struct link *open_admin_in(enum cgroup_tree tree, unsigned n)
{
        char path[sizeof(gpumemd.socket) + 8];
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *link;

        (void)snprintf(path, sizeof(path), "%s.admin", gpumemd.socket);
        container_enter(tree, n);
        ck_assert_int_eq(link_new(path, "admin", &link, &welcome, &fds), 0);
        fdset_deinit(&fds);
        container_leave(tree);
        return link;
}

TEST(root_in_a_container_rules_nobody_outside, .to = find_trees(), NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[_i];
        struct link *inside, *admin, *outside;

        start("{}");
        inside = open_in(tree, 0);
        admin = open_admin_in(tree, 0);
        outside = open_in(tree, OUTSIDE);
        ck_assert_int_eq(try_to_rule(outside), 0);
        ck_assert_int_eq(try_to_rule(inside), GPUMEM_E_DENIED);
        ck_assert_int_eq(try_to_rule(admin), GPUMEM_E_DENIED);
        link_free(inside);
        link_free(admin);
        link_free(outside);
        end(tree);
}

TEST(the_daemons_own_container_rules, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct link *its, *other;

        container_enter(tree, 0);
        start("{}");
        its = open_in(tree, 0);
        other = open_in(tree, 1);
        ck_assert_int_eq(try_to_rule(its), 0);
        ck_assert_int_eq(try_to_rule(other), GPUMEM_E_DENIED);
        link_free(its);
        link_free(other);
        end(tree);
}

/* Of another tenant's: no pid, no name, no uid, no age, no single block; the sum. */
TEST(another_containers_rows_are_a_sum, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct link *holder, *asker;
        struct listed listed;
        const struct client_row *others;
        const struct tenant_row *tenants;

        start("{}");
        holder = open_in(tree, 0);
        asker = open_in(tree, 1);
        hold(holder);
        hold(holder);
        listed = listed_fetch(asker, MESSAGE_CLIENTS);
        ck_assert_uint_eq(listed.n_rows, 2);
        others = &listed.clients[1];
        ck_assert_uint_eq(others->state, LISTED_OTHERS);
        ck_assert_uint_eq(others->pid, 0);
        ck_assert_uint_eq(others->uid, LISTING_NOBODY);
        ck_assert_uint_eq(others->connected, LISTING_UNTOLD);
        ck_assert_str_eq(others->program, "(other tenants)");
        ck_assert_str_eq(others->container, "");
        ck_assert_uint_eq(others->device_leased, 2 * PIECE);
        listed_free(&listed);
        listed = listed_fetch(asker, MESSAGE_BLOCKS);
        ck_assert_uint_eq(listed.n_rows, 1);
        ck_assert_uint_eq(listed.blocks[0].state, LISTED_SUM);
        ck_assert_uint_eq(listed.blocks[0].block, 0);
        ck_assert_uint_eq(listed.blocks[0].pid, 0);
        ck_assert_uint_eq(listed.blocks[0].lease, 0);
        ck_assert_uint_eq(listed.blocks[0].uid, LISTING_NOBODY);
        ck_assert_uint_eq(listed.blocks[0].age, LISTING_UNTOLD);
        ck_assert_uint_eq(listed.blocks[0].bytes, 2 * PIECE);
        listed_free(&listed);
        listed = listed_fetch(asker, MESSAGE_TENANTS);
        tenants = &listed.tenants[listed.n_rows - listed.n_pools];
        ck_assert_uint_eq(listed.n_rows, 2 * listed.n_pools);
        ck_assert_uint_eq(tenants->uid, LISTING_NOBODY);
        ck_assert_str_eq(tenants->container, "");
        ck_assert_uint_eq(tenants->reserved, 2 * PIECE);
        ck_assert_uint_eq(tenants->reserved_peak, LISTING_UNTOLD);
        listed_free(&listed);
        let_go();
        link_free(holder);
        link_free(asker);
        end(tree);
}

TEST(a_refusal_names_nobody_in_another_container, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        const struct message_lease wanted = {.pool = 0, .n_bytes = 60 * MIB};
        struct message_leased leased;
        struct link *holder, *asker, *outside;
        char text[LINK_REFUSAL_MAX], pid[32];

        start("{}");
        holder = open_in(tree, 0);
        asker = open_in(tree, 1);
        outside = open_in(tree, OUTSIDE);
        hold(holder);
        (void)snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
        ck_assert_int_eq(lease_over(asker, &wanted, &leased), GPUMEM_E_REFUSED);
        link_refusal(asker, text);
        ck_assert_msg(strstr(text, "other tenants 6.00 MiB") && !strstr(text, pid), "%s", text);
        ck_assert_int_eq(lease_over(outside, &wanted, &leased), GPUMEM_E_REFUSED);
        link_refusal(outside, text);
        ck_assert_msg(strstr(text, pid) && !strstr(text, "other tenants"), "%s", text);
        let_go();
        link_free(holder);
        link_free(asker);
        link_free(outside);
        end(tree);
}

/* Each is measured by itself, and is told of itself. */
TEST(a_limit_is_each_containers, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        char text[LINK_REFUSAL_MAX], named[96], id[CONTAINER_SHORT_ID_BYTES];
        struct link *one, *other, *outside;
        struct message_leased leased;
        struct limit_row row;

        start("{\"limits\": {\"tenant\": {\"device_bytes\": \"8MiB\"}}}");
        one = open_in(tree, 0);
        other = open_in(tree, 1);
        outside = open_in(tree, OUTSIDE);
        hold(one);
        hold(other);
        ck_assert_int_eq(lease_over(one, &wanted, &leased), GPUMEM_E_LIMIT);
        link_refusal(one, text);
        (void)snprintf(named, sizeof(named), "tenant uid %u in %s: 6.00 MiB of 8.00 MiB",
                       (unsigned)getuid(), container_short_id(0, id));
        ck_assert_msg(strstr(text, named), "%s", text);
        ck_assert_uint_eq(find_limit(one, PROTO_LIMIT_OF_TENANT, getuid(), ANY_LIMIT, &row), 1);
        ck_assert_str_eq(row.name, id);
        ck_assert_uint_eq(find_limit(outside, PROTO_LIMIT_OF_TENANT, getuid(), ANY_LIMIT, &row), 3);
        let_go();
        link_free(one);
        link_free(other);
        link_free(outside);
        end(tree);
}

/* The same user elsewhere is another tenant: it takes a grant. */
TEST(a_grant_reaches_the_user_in_another_container, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct sharer owner, guest;
        char token[GPUMEM_TOKEN_TEXT_BYTES], grant[32];

        start("{}");
        container_enter(tree, 0);
        sharer_start(&owner, SHARER_WITHOUT_CUDA, NULL);
        container_enter(tree, 1);
        sharer_start(&guest, SHARER_WITHOUT_CUDA, NULL);
        container_leave(tree);
        sharer_must(&owner, "alloc pinned %d", 1000000);
        sharer_must(&owner, "fill 1");
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "share"));
        ck_assert_int_eq(sharer_tell(&guest, "attach pinned %s", token), GPUMEM_E_NO_TOKEN);
        (void)snprintf(grant, sizeof(grant), "share %u", (unsigned)getuid() + 1);
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "%s", grant));
        ck_assert_int_eq(sharer_tell(&guest, "attach pinned %s", token), GPUMEM_E_NO_TOKEN);
        (void)snprintf(grant, sizeof(grant), "share %u", (unsigned)getuid());
        (void)snprintf(token, sizeof(token), "%s", sharer_must(&owner, "%s", grant));
        ck_assert_str_eq(sharer_must(&guest, "attach pinned %s", token), "1000000");
        ck_assert_str_eq(sharer_must(&guest, "check 1"), "0");
        ck_assert_int_eq(sharer_tell(&guest, "unshare %s", token), GPUMEM_E_NO_TOKEN);
        sharer_end(&owner);
        sharer_end(&guest);
        end(tree);
}

TEST(one_container_is_served_where_memory_is_not_cleared, .can_run = has_containers_and_emulator,
     .needs = "root, the emulated driver, and cgroups that may be written to")
{
        static const char *const options[] = {"--canary", "on", NULL};
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        enum cgroup_tree tree = trees[0];
        struct message_leased leased;
        struct link *one, *other;

        daemon_start(&gpumemd, "devices=1,bytes=1GiB,dirty=1", options);
        one = open_in(tree, 0);
        other = open_in(tree, 1);
        hold(one);
        ck_assert_int_eq(lease_over(other, &wanted, &leased), GPUMEM_E_DENIED);
        let_go();
        link_free(one);
        link_free(other);
        end(tree);
}

TESTS_MAIN("tenants", .limit_s = 60)
