/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's small files about nodes and control groups: read from files of the test's own. */
#include "daemon/backing/pinned/nodes.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "base/text.h"
#include "daemon/backing/pinned/headroom.h"
#include "gpumem.h"
#include "tests/suite.h"

static char place[64];

static void make_place(void)
{
        (void)snprintf(place, sizeof(place), "/tmp/gpumem-test-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(place));
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
        (void)st;
        (void)kind;
        (void)walk;
        return remove(path);
}

static void remove_place(void)
{
        ck_assert_int_eq(nftw(place, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes a file below the test's folder, with its folders. */
static void put(const char *path, const char *text)
{
        char full[256];
        FILE *file;

        (void)snprintf(full, sizeof(full), "%s/%s", place, path);
        for (char *slash = strchr(full + strlen(place) + 1, '/'); slash;
             slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                (void)mkdir(full, 0700);
                *slash = '/';
        }
        file = fopen(full, "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

TEST(lists_are_read)
{
        struct nodes nodes;

        ck_assert_int_eq(nodes_parse("0\n", &nodes), 0);
        ck_assert_uint_eq(nodes.n, 1);
        ck_assert_int_eq(nodes.ids[0], 0);
        ck_assert_int_eq(nodes_parse("1-2,5,8-9", &nodes), 0);
        ck_assert_uint_eq(nodes.n, 5);
        ck_assert_int_eq(nodes.ids[0], 1);
        ck_assert_int_eq(nodes.ids[1], 2);
        ck_assert_int_eq(nodes.ids[2], 5);
        ck_assert_int_eq(nodes.ids[3], 8);
        ck_assert_int_eq(nodes.ids[4], 9);
        ck_assert_int_eq(nodes_parse("0-63", &nodes), 0);
        ck_assert_uint_eq(nodes.n, NODES_MAX);
}

TEST(what_is_no_list_is_refused)
{
        static const char *const texts[] = {"",    "\n", "x",  "1-",  "-1",
                                            "2-1", "0,", ",0", "0 1", "+1"};
        struct nodes nodes = {.n = 77};

        for (unsigned i = 0; i < ARRAY_SIZE(texts); i++)
                ck_assert_msg(nodes_parse(texts[i], &nodes) == -EINVAL, "\"%s\"", texts[i]);
        ck_assert_int_eq(nodes_parse("0-64", &nodes), -E2BIG);
        ck_assert_int_eq(nodes_parse("0-62,70-71", &nodes), -E2BIG);
        ck_assert_int_eq(nodes_parse("99999999999999999999", &nodes), -E2BIG);
        ck_assert_uint_eq(nodes.n, 77);
}

/* A node without memory has no pool; a machine that shows no nodes has one. */
TEST(nodes_with_memory_are_found)
{
        struct nodes nodes;

        nodes_read(place, &nodes);
        ck_assert_uint_eq(nodes.n, 1);
        ck_assert_int_eq(nodes.ids[0], 0);
        put("online", "0-2\n");
        nodes_read(place, &nodes);
        ck_assert_uint_eq(nodes.n, 3);
        put("has_memory", "0,2\n");
        nodes_read(place, &nodes);
        ck_assert_uint_eq(nodes.n, 2);
        ck_assert_int_eq(nodes.ids[1], 2);
}

TEST(a_nodes_memory_is_read)
{
        struct node_memory memory;

        put("node3/meminfo", "Node 3 MemTotal:       2048 kB\n"
                             "Node 3 MemFree:          10 kB\n"
                             "Node 3 Active:         1000 kB\n"
                             "Node 3 Active(file):      4 kB\n"
                             "Node 3 Inactive(file):    2 kB\n"
                             "Node 3 SReclaimable:      1 kB\n");
        put("node3/hugepages/hugepages-2048kB/nr_hugepages", "12\n");
        node_read_memory(place, 3, &memory);
        ck_assert_uint_eq(memory.n_total_bytes, 2 * MIB);
        ck_assert_uint_eq(memory.n_available_bytes, 17 * KIB);
        ck_assert_uint_eq(memory.n_huge_pages, 12);
}

TEST(a_node_that_shows_nothing_is_the_machine)
{
        struct node_memory memory;

        node_read_memory(place, 0, &memory);
        ck_assert_uint_gt(memory.n_total_bytes, 0);
        ck_assert_uint_gt(memory.n_available_bytes, 0);
        ck_assert_uint_le(memory.n_available_bytes, memory.n_total_bytes);
        ck_assert_uint_eq(memory.n_huge_pages, 0);
}

TEST(figures_are_whole_words)
{
        ck_assert_uint_eq(text_figure("inactive_file 3\nactive_file 4\n", "active_file"), 4);
        ck_assert_uint_eq(text_figure("MemFreeX: 5\nMemFree:   6 kB\n", "MemFree"), 6);
        ck_assert_uint_eq(text_figure("MemFree", "MemFree"), 0);
        ck_assert_uint_eq(text_figure("", "MemFree"), 0);
}

/* The limit of the group, and those above it; the page cache does not count. */
TEST(groups_limit_what_may_be_taken)
{
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), UINT64_MAX);
        put("a/b/memory.max", "max\n");
        put("a/b/memory.current", "500\n");
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), UINT64_MAX);
        put("a/memory.max", "1000\n");
        put("a/memory.current", "700\n");
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), 300);
        put("a/memory.stat", "anon 600\ninactive_file 30\nactive_file 20\n");
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), 350);
        put("a/b/memory.max", "600\n");
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), 100);
        put("a/b/memory.max", "400\n");
        ck_assert_uint_eq(headroom_of_group(place, "/a/b"), 0);
        ck_assert_uint_eq(headroom_of_group(place, "/"), UINT64_MAX);
}

TEST(more_than_the_machine_has_is_refused)
{
        struct node_memory memory;

        node_read_memory(NODES_ROOT, 0, &memory);
        ck_assert_int_eq(headroom_check(0, memory.n_total_bytes), GPUMEM_E_DEVICE_FULL);
        ck_assert_int_eq(headroom_check(0, UINT64_MAX), GPUMEM_E_DEVICE_FULL);
        ck_assert_int_eq(headroom_check(0, 0), 0);
}

TESTS_MAIN("nodes", .start = make_place, .stop = remove_place)
