/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: a user's processes in one container, or in none, trust each other only; and what each may see
 * and do. */
#include "tests/live/support/containers.h"
#include "tests/live/support/listed.h"
#include "tests/live/support/sharer.h"
#include "tests/live/support/world.h"

#define PIECE (6 * MIB)

/* The kinds of containers on this machine; a loop test's number is an index. */
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
        daemon_start_configured(&gpumemd, "devices=1,bytes=256MiB",
                                OPTIONS("--device-bytes", "64MiB", "--pinned-bytes", "64MiB"),
                                configuration);
}

#define OUTSIDE UINT32_MAX

/* A connection from the n-th container. This process is outside again afterwards. */
static struct link *open_in(enum cgroup_tree tree, unsigned n, const char *socket)
{
        struct link *link;

        if (n != OUTSIDE)
                container_enter(tree, n);
        link = open_link_at(socket, "test", NULL);
        container_leave(tree);
        return link;
}

/* From one container, from another one, and from none. */
static struct link *one, *other, *outside;

static void start_three(enum cgroup_tree tree, const char *configuration)
{
        start(configuration);
        one = open_in(tree, 0, NULL);
        other = open_in(tree, 1, NULL);
        outside = open_in(tree, OUTSIDE, NULL);
}

static struct message_leased must_lease(struct link *link)
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        struct message_leased leased;

        ck_assert_int_eq(lease_over(link, &wanted, &leased), 0);
        return leased;
}

/* Memory of a living process is charged to it. */
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

static void end(enum cgroup_tree tree)
{
        let_go();
        one = link_free(one);
        other = link_free(other);
        outside = link_free(outside);
        container_leave(tree);
        gpumemd_stop_empty();
        containers_remove(tree);
}

/* The block's number; afterwards it is cached for this client's tenant. */
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
        struct link *again;
        uint64_t block;

        start_three(tree, "{}");
        again = open_in(tree, 0, NULL);
        block = lease_and_return(one);
        ck_assert_uint_ne(lease_and_return(other), block);
        ck_assert_uint_ne(lease_and_return(outside), block);
        ck_assert_uint_eq(lease_and_return(again), block);
        link_free(one);
        link_free(again);
        /* It is there for the container, for any process in it. */
        one = open_in(tree, 0, NULL);
        ck_assert_uint_eq(lease_and_return(one), block);
        end(tree);
}

TEST(users_may_be_tenants_wherever_they_are, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        uint64_t block;

        start_three(tree, "{\"tenants\": \"uid\"}");
        block = lease_and_return(one);
        ck_assert_uint_eq(lease_and_return(other), block);
        ck_assert_uint_eq(lease_and_return(outside), block);
        end(tree);
}

TEST(clients_may_be_tenants)
{
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
        struct listed listed;
        unsigned n_found = 0;

        start("{}");
        one = open_in(tree, 0, NULL);
        (void)lease_and_return(one);
        (void)container_short_id(0, id);
        listed = listed_now(MESSAGE_CLIENTS);
        for (uint32_t i = 0; i < listed.n_rows; i++)
                n_found += strcmp(listed.clients[i].container, id) == 0;
        ck_assert_uint_eq(listed.n_rows, 2);
        ck_assert_uint_eq(n_found, 1);
        listed_free(&listed);
        one = link_free(one);
        /* Its cached blocks are listed when no process is in it any more. */
        listed = listed_now(MESSAGE_TENANTS);
        n_found = 0;
        for (uint32_t i = 0; i < listed.n_rows; i++)
                n_found += strcmp(listed.tenants[i].container, id) == 0 &&
                           listed.tenants[i].cached == PIECE;
        ck_assert_uint_eq(n_found, 1);
        listed_free(&listed);
        end(tree);
}

/* GPUMEM_E_DENIED, or 0. */
static int try_to_rule(struct link *link)
{
        const struct message_set_limits change = {
                .scope = PROTO_LIMIT_OF_TENANT, .holder = 77, .kind = PROTO_LIMIT_LEASES, .max = 5};
        int r = set_limit_over(link, &change, NULL);

        ck_assert_int_eq(free_all_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS, NULL), r);
        ck_assert_int_eq(reset_peaks_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS), r);
        return r;
}

/* A container with the folder of the sockets has both sockets. */
TEST(root_in_a_container_rules_nobody_outside, .to = find_trees(), NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[_i];
        struct link *admin;

        start_three(tree, "{}");
        admin = open_in(tree, 0, daemon_admin_socket());
        ck_assert_int_eq(try_to_rule(outside), 0);
        ck_assert_int_eq(try_to_rule(one), GPUMEM_E_DENIED);
        ck_assert_int_eq(try_to_rule(admin), GPUMEM_E_DENIED);
        link_free(admin);
        end(tree);
}

TEST(the_daemons_own_container_rules, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];

        container_enter(tree, 0);
        start_three(tree, "{}");
        ck_assert_int_eq(try_to_rule(one), 0);
        ck_assert_int_eq(try_to_rule(other), GPUMEM_E_DENIED);
        end(tree);
}

TEST(another_containers_rows_are_a_sum, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];

        start("{}");
        one = open_in(tree, 0, NULL);
        other = open_in(tree, 1, NULL);
        hold(one);
        hold(one);
        listed_expect_sums(other, 2 * PIECE, 2);
        end(tree);
}

TEST(a_refusal_names_nobody_in_another_container, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        const struct message_lease wanted = {.pool = 0, .n_bytes = 60 * MIB};
        struct message_leased leased;
        char text[LINK_REFUSAL_MAX], pid[32];

        start_three(tree, "{}");
        hold(one);
        (void)snprintf(pid, sizeof(pid), "(pid %d", (int)getpid());
        ck_assert_int_eq(lease_over(other, &wanted, &leased), GPUMEM_E_REFUSED);
        link_refusal(other, text);
        ck_assert_msg(strstr(text, "other tenants 6.00 MiB") && !strstr(text, pid), "%s", text);
        ck_assert_int_eq(lease_over(outside, &wanted, &leased), GPUMEM_E_REFUSED);
        link_refusal(outside, text);
        ck_assert_msg(strstr(text, pid) && !strstr(text, "other tenants"), "%s", text);
        end(tree);
}

/* Each container has its own limit, and is told of its own. */
TEST(a_limit_is_each_containers, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        char text[LINK_REFUSAL_MAX], named[96], id[CONTAINER_SHORT_ID_BYTES];
        struct message_leased leased;
        struct limit_row row;

        start_three(tree, "{\"limits\": {\"tenant\": {\"device_bytes\": \"8MiB\"}}}");
        hold(one);
        hold(other);
        ck_assert_int_eq(lease_over(one, &wanted, &leased), GPUMEM_E_LIMIT);
        link_refusal(one, text);
        (void)snprintf(named, sizeof(named), "tenant uid %u in %s: 6.00 MiB of 8.00 MiB",
                       (unsigned)getuid(), container_short_id(0, id));
        must_contain(text, named);
        ck_assert_uint_eq(find_limit(one, PROTO_LIMIT_OF_TENANT, getuid(), ANY_LIMIT, &row), 1);
        ck_assert_str_eq(row.name, id);
        ck_assert_uint_eq(find_limit(outside, PROTO_LIMIT_OF_TENANT, getuid(), ANY_LIMIT, &row), 3);
        end(tree);
}

/* The same user in another container is another tenant: a grant is needed. */
TEST(a_grant_reaches_the_user_in_another_container, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct sharer owner, guest;
        char token[GPUMEM_TOKEN_TEXT_BYTES];

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
        (void)snprintf(token, sizeof(token), "%s",
                       sharer_must(&owner, "share %u", (unsigned)getuid() + 1));
        ck_assert_int_eq(sharer_tell(&guest, "attach pinned %s", token), GPUMEM_E_NO_TOKEN);
        (void)snprintf(token, sizeof(token), "%s",
                       sharer_must(&owner, "share %u", (unsigned)getuid()));
        ck_assert_str_eq(sharer_must(&guest, "attach pinned %s", token), "1000000");
        ck_assert_str_eq(sharer_must(&guest, "check 1"), "0");
        ck_assert_int_eq(sharer_tell(&guest, "unshare %s", token), GPUMEM_E_NO_TOKEN);
        sharer_end(&owner);
        sharer_end(&guest);
        end(tree);
}

/* What gpumemctl free-all --tenant --json says in the n-th container. */
static void tell_stays(enum cgroup_tree tree, unsigned n, char said[static 2048])
{
        char command[512];
        size_t n_read;
        FILE *output;

        if (n != OUTSIDE)
                container_enter(tree, n);
        (void)snprintf(command, sizeof(command), "'%s' free-all --tenant --json",
                       getenv("GPUMEM_TEST_CTL"));
        output = popen(command, "re");
        ck_assert_ptr_nonnull(output);
        n_read = fread(said, 1, 2047, output);
        said[n_read] = '\0';
        ck_assert_int_eq(pclose(output), 0);
        container_leave(tree);
}

/* Root sees what other containers of root have, too. */
TEST(free_all_of_a_tenant_tells_of_no_other_container, NEEDS_CONTAINERS)
{
        enum cgroup_tree tree = trees[0];
        struct sharer holder;
        char said[2048];
        uint64_t lease;

        start_three(tree, "{}");
        /* A block's row says its client's process, not which of its clients. */
        one = link_free(one);
        outside = link_free(outside);
        (void)daemon_quiet_fds(&gpumemd);
        container_enter(tree, 0);
        sharer_start(&holder, SHARER_WITHOUT_CUDA, NULL);
        container_leave(tree);
        sharer_must(&holder, "alloc pinned %d", 1000000);
        lease = must_lease(other).lease;
        return_over(other, lease, 0);
        daemon_await(FIGURE_cached, PIECE);
        daemon_free_all();
        daemon_await(FIGURE_lingering, PIECE);
        tell_stays(tree, OUTSIDE, said);
        must_contain(said, "\"lingering_bytes\": 0");
        must_contain(said, "\"stays\": []");
        tell_stays(tree, 0, said);
        must_contain(said, "\"what\": \"held\"");
        unmapped_over(other, lease);
        sharer_end(&holder);
        end(tree);
}

TEST(one_container_is_served_where_memory_is_not_cleared, .can_run = has_containers_and_emulator,
     .needs = "root, the emulated driver, and cgroups that may be written to")
{
        const struct message_lease wanted = {.pool = 0, .n_bytes = PIECE};
        enum cgroup_tree tree = trees[0];
        struct message_leased leased;

        daemon_start(&gpumemd, "devices=1,bytes=1GiB,dirty=1", OPTIONS("--canary", "on"));
        one = open_in(tree, 0, NULL);
        other = open_in(tree, 1, NULL);
        hold(one);
        ck_assert_int_eq(lease_over(other, &wanted, &leased), GPUMEM_E_DENIED);
        end(tree);
}

TESTS_MAIN("tenants", .limit_s = 60)
