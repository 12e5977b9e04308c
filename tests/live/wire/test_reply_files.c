/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of reply files, which counts as the daemon's: a client that keeps many files keeps little
 * memory. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/connection/rows.h"
#include "proto/listing.h"
#include "tests/live/support/world.h"

#define A_SESSION 8 /* files of answers that a connection keeps */

static struct link *hoarder;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        hoarder = open_link("hoarder", NULL);
}

static void stop(void)
{
        link_free(hoarder);
        daemon_stop(&gpumemd);
}

struct kept {
        int fd;
        uint32_t n_rows;
        uint32_t n_row_bytes;
};

static struct kept ask(void)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;

        ck_assert_int_eq(
                link_call(hoarder, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds), 0);
        ck_assert_uint_eq(fds.n, 1);
        return (struct kept){fds.fds[0], reply.stats_reply.n_rows, reply.stats_reply.n_row_bytes};
}

static int read_kept(const struct kept *kept)
{
        void *rows = NULL;
        int r = rows_read(kept->fd, kept->n_rows, kept->n_row_bytes, sizeof(struct stats_row),
                          &rows);

        free(rows);
        return r;
}

static bool takes_memory(int fd)
{
        struct stat st;

        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_int_gt(st.st_size, 0);
        return st.st_blocks > 0;
}

static void await_release(int fd)
{
        AWAIT(!takes_memory(fd));
}

TEST(so_many_are_kept_and_no_more)
{
        struct kept kept[A_SESSION + 1];

        for (unsigned i = 0; i < A_SESSION; i++)
                kept[i] = ask();
        for (unsigned i = 0; i < A_SESSION; i++)
                ck_assert_int_eq(read_kept(&kept[i]), 0);
        kept[A_SESSION] = ask();
        await_release(kept[0].fd);
        ck_assert_int_eq(read_kept(&kept[0]), -ENODATA);
        for (unsigned i = 1; i <= A_SESSION; i++)
                ck_assert_int_eq(read_kept(&kept[i]), 0);
        for (unsigned i = 0; i <= A_SESSION; i++)
                (void)close(kept[i].fd);
}

TEST(a_mapping_keeps_none_either)
{
        struct kept kept = ask();
        struct stat st;
        const char *bytes;

        ck_assert_int_eq(fstat(kept.fd, &st), 0);
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, kept.fd, 0);
        ck_assert_ptr_ne(bytes, MAP_FAILED);
        for (unsigned i = 0; i < A_SESSION; i++)
                (void)close(ask().fd);
        await_release(kept.fd);
        for (off_t i = 0; i < st.st_size; i++)
                ck_assert_int_eq(bytes[i], 0);
        ck_assert_int_eq(munmap((void *)bytes, (size_t)st.st_size), 0);
        (void)close(kept.fd);
}

TEST(after_a_while_none_is_kept)
{
        struct kept kept = ask();

        ck_assert_int_eq(read_kept(&kept), 0);
        for (unsigned i = 0; i < 600 && takes_memory(kept.fd); i++)
                usleep(100000);
        ck_assert_int_eq(read_kept(&kept), -ENODATA);
        (void)close(kept.fd);
}

/* The board, too, if its client has not sealed it. */
TEST(with_the_connection_all_is_taken_back)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct kept kept;
        struct link *other;
        char word = 1;

        ck_assert_int_eq(
                link_open(NULL, &(struct link_hello){.program = "hoarder"}, &other, &welcome, &fds),
                0);
        ck_assert_int_eq(pwrite(fds.fds[0], &word, sizeof(word), 0), sizeof(word));
        link_free(hoarder);
        hoarder = other;
        kept = ask();
        link_free(hoarder);
        hoarder = open_link("another", NULL);
        await_release(kept.fd);
        await_release(fds.fds[0]);
        fdset_deinit(&fds);
        (void)close(kept.fd);
}

/* Its leases go on, and it may be about to mark them. */
TEST(a_daemon_that_ends_leaves_its_clients_what_they_share)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        struct link *other;
        struct kept kept = ask();

        ck_assert_int_eq(
                link_open(NULL, &(struct link_hello){.program = "hoarder"}, &other, &welcome, &fds),
                0);
        daemon_stop(&gpumemd);
        ck_assert(takes_memory(fds.fds[0]));
        ck_assert_int_eq(read_kept(&kept), 0);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        link_free(other);
        fdset_deinit(&fds);
        (void)close(kept.fd);
}

TESTS_MAIN("reply_files", .limit_s = 120, .start = start, .stop = stop)
