/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of reply files, which counts as the daemon's: a client that keeps many files keeps little
 * memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/connection/rows.h"
#include "proto/listing.h"
#include "tests/live/support/world.h"
#include "tests/missing_page.h"

#define STRANGER  65534
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

TEST(with_the_connection_all_is_taken_back)
{
        struct kept kept = ask();

        link_free(hoarder);
        hoarder = open_link("another", NULL);
        await_release(kept.fd);
        (void)close(kept.fd);
}

/* Else it could delay that the memory is taken back. Root can open the file again. */
TEST(its_reader_cannot_write)
{
        struct kept kept = ask();

        ck_assert_int_eq(fcntl(kept.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        ck_assert_ptr_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, kept.fd, 0), MAP_FAILED);
        ck_assert_int_eq(errno, EACCES);
        (void)close(kept.fd);
}

static void open_again(const void *argument)
{
        const struct kept *kept = argument;
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", kept->fd);
        ck_assert_int_eq(open(path, O_RDWR | O_CLOEXEC), -1);
        ck_assert_int_eq(errno, EACCES);
}

TEST(nor_can_it_open_the_file_again, NEEDS_ROOT)
{
        struct kept kept = ask();

        as_user(STRANGER, open_again, &kept);
        (void)close(kept.fd);
}

/* More than may wait to be taken back. */
#define N_WAITING 4200

static int ask_times(unsigned n)
{
        struct frame request, reply;
        int r = 0;

        for (unsigned i = 0; i < n && !r; i++) {
                struct fdset fds = FDSET_NULL;

                request = FRAME_NULL;
                r = link_call(hoarder, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds);
                fdset_deinit(&fds);
        }
        if (r)
                ck_assert_str_eq(reply.error.text,
                                 "gpumemd makes no more lists: a process that writes to one "
                                 "delays that the memory of earlier ones is freed");
        return r;
}

/* Root can open the file again, and writes to it. */
TEST(while_memory_of_lists_cannot_be_freed_no_more_are_made, NEEDS_ROOT)
{
        struct missing_page page;
        struct kept kept = ask();
        char path[64];
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", kept.fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        if (missing_page_hold(&page, fd)) {
                const struct message_lease wanted = {.n_bytes = 2 * MIB};
                struct message_leased leased;

                ck_assert_int_eq(ask_times(N_WAITING), GPUMEM_E_TOO_MANY);
                ck_assert_int_eq(lease_over(hoarder, &wanted, &leased), 0);
                return_over(hoarder, leased.lease, PROTO_RETURN_UNMAPPED);
                missing_page_provide(&page);
                await_release(kept.fd);
                /* Many at once may be more than the thread takes back meanwhile. */
                AWAIT(ask_times(1) == 0);
        }
        closep(&fd);
        closep(&kept.fd);
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
        ck_assert_int_eq(pwrite(fds.fds[0], "x", 1, 0), 1);
        daemon_stop(&gpumemd);
        ck_assert(takes_memory(fds.fds[0]));
        ck_assert_int_eq(read_kept(&kept), 0);
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        link_free(other);
        fdset_deinit(&fds);
        (void)close(kept.fd);
}

TESTS_MAIN("reply_files", .limit_s = 120, .start = start, .stop = stop)
