/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of pinned memory as a pool's worker creates them: whole, or not at all. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memfd.h"
#include "base/size.h"
#include "daemon/backing/pinned/prefault.h"
#include "daemon/backing/worker/backing.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "gpumem.h"
#include "tests/suite.h"

/* The linker redirects the program's calls to these; glibc calls fallocate64 where files are large. */
int __wrap_fallocate64(int fd, int mode, off_t start, off_t n_bytes);
int __real_fallocate64(int fd, int mode, off_t start, off_t n_bytes);
int __wrap_madvise(void *bytes, size_t n_bytes, int advice);
int __real_madvise(void *bytes, size_t n_bytes, int advice);

enum call { CALL_FALLOCATE, CALL_MADVISE };

/* Calls, over all threads, that succeed before one fails with `error`; negative: none fails. */
static atomic_int n_before_failure[2] = {-1, -1};
static atomic_uint n_calls[2];
static int error;

static atomic_bool cancelled, abandoned;
static atomic_bool *madvise_sets;

static bool fails(enum call call)
{
        atomic_fetch_add(&n_calls[call], 1);
        return atomic_load(&n_before_failure[call]) >= 0 &&
               atomic_fetch_sub(&n_before_failure[call], 1) == 0;
}

int __wrap_fallocate64(int fd, int mode, off_t start, off_t n_bytes)
{
        if (fails(CALL_FALLOCATE)) {
                errno = error;
                return -1;
        }
        return __real_fallocate64(fd, mode, start, n_bytes);
}

int __wrap_madvise(void *bytes, size_t n_bytes, int advice)
{
        if (madvise_sets)
                atomic_store(madvise_sets, true);
        if (fails(CALL_MADVISE)) {
                errno = error;
                return -1;
        }
        return __real_madvise(bytes, n_bytes, advice);
}

static void fail_after(enum call call, int n, int with)
{
        atomic_store(&n_before_failure[call], n);
        error = with;
}

static unsigned count_fds(void)
{
        DIR *folder = opendir("/proc/self/fd");
        unsigned n = 0;

        ck_assert_ptr_nonnull(folder);
        while (readdir(folder))
                n++;
        (void)closedir(folder);
        return n;
}

static struct page_sweeper *sweeper;
static struct backing *backing;
static unsigned n_fds_before;

static void start(void)
{
        n_fds_before = count_fds();
        ck_assert_int_eq(page_sweeper_new(&sweeper), 0);
        ck_assert_int_eq(backing_pinned_new(0, "pinned", sweeper, &backing), 0);
}

static void stop(void)
{
        backing->free(backing);
        page_sweeper_free(sweeper);
        ck_assert_uint_eq(count_fds(), n_fds_before);
}

static int create(struct backing_block *block, uint64_t n_bytes)
{
        char failure[BACKING_FAILURE_MAX] = "";
        int r;

        *block = (struct backing_block){.n_bytes = n_bytes, .fd = -1};
        r = backing->create(backing, block, failure);
        ck_assert(r ? failure[0] && block->fd == -1 : !failure[0] && block->fd >= 0);
        return r;
}

static uint64_t file_bytes(int fd)
{
        struct stat st;

        ck_assert_int_eq(fstat(fd, &st), 0);
        return (uint64_t)st.st_blocks * 512;
}

TEST(blocks_are_whole_zero_and_sealed)
{
        static const uint64_t sizes[] = {2 * MIB, 64 * MIB, 66 * MIB, 258 * MIB};

        for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
                struct backing_block block;
                const char *bytes;

                ck_assert_int_eq(create(&block, sizes[i]), 0);
                ck_assert_uint_eq(file_bytes(block.fd), sizes[i]);
                ck_assert_int_eq(memfd_check(block.fd, sizes[i]), 0);
                ck_assert_int_eq(ftruncate(block.fd, 0), -1);
                ck_assert_int_eq(ftruncate(block.fd, (off_t)sizes[i] * 2), -1);
                ck_assert(fcntl(block.fd, F_GETFD) & FD_CLOEXEC);
                ck_assert_int_eq(memfd_map_read(block.fd, sizes[i], (const void **)&bytes), 0);
                ck_assert_int_eq(bytes[0], 0);
                ck_assert_int_eq(memcmp(bytes, bytes + 1, sizes[i] - 1), 0);
                ck_assert_int_eq(munmap((void *)bytes, sizes[i]), 0);
                ck_assert_int_eq(backing->look(&block), BACKING_WHOLE);
                backing->release(backing, &block);
        }
}

/* As where a cpuset leaves the node out. */
TEST(a_node_that_may_not_be_had_is_no_failure)
{
        struct backing *elsewhere;
        struct backing_block block = {.n_bytes = 2 * MIB, .fd = -1};
        char failure[BACKING_FAILURE_MAX] = "";

        ck_assert_int_eq(backing_pinned_new(900, "pinned", sweeper, &elsewhere), 0);
        ck_assert_int_eq(elsewhere->create(elsewhere, &block, failure), 0);
        ck_assert_uint_eq(file_bytes(block.fd), 2 * MIB);
        ck_assert_int_eq(close(block.fd), 0);
        elsewhere->free(elsewhere);
}

TEST(a_hole_is_seen)
{
        struct backing_block block;

        ck_assert_int_eq(create(&block, 4 * MIB), 0);
        ck_assert_int_eq(
                fallocate(block.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * MIB, 2 * MIB),
                0);
        ck_assert_int_eq(backing->look(&block), BACKING_HOLED);
        backing->release(backing, &block);
}

/* Of small pages, and of huge ones if there are any. */
TEST(who_keeps_the_fd_or_a_mapping_keeps_no_pages)
{
        struct backing_block block;
        void *bytes;
        int kept;

        ck_assert_int_eq(create(&block, 66 * MIB), 0);
        kept = dup(block.fd);
        ck_assert_int_eq(memfd_map_shared(kept, block.n_bytes, &bytes), 0);
        memset(bytes, 1, block.n_bytes);
        ck_assert_int_eq(backing->release(backing, &block), 0);
        ck_assert_int_eq(block.fd, -1);
        ck_assert_uint_eq(file_bytes(kept), 0);
        ck_assert_int_eq(memfd_check(kept, block.n_bytes), 0);
        ck_assert_int_eq(munmap(bytes, block.n_bytes), 0);
        ck_assert_int_eq(close(kept), 0);
}

TEST(who_may_use_it_still_keeps_its_bytes)
{
        struct backing_block block;
        const unsigned char *bytes;
        void *written;
        int kept;

        ck_assert_int_eq(create(&block, 4 * MIB), 0);
        kept = dup(block.fd);
        ck_assert_int_eq(memfd_map_shared(kept, block.n_bytes, &written), 0);
        memset(written, 7, block.n_bytes);
        block.may_be_used = true;
        ck_assert_int_eq(backing->release(backing, &block), 0);
        ck_assert_uint_eq(file_bytes(kept), block.n_bytes);
        bytes = written;
        for (uint64_t i = 0; i < block.n_bytes; i += 4096)
                ck_assert_int_eq(bytes[i], 7);
        ck_assert_int_eq(munmap(written, block.n_bytes), 0);
        ck_assert_int_eq(close(kept), 0);
}

TEST(pages_that_stay_are_no_failure_of_a_release)
{
        struct backing_block block;

        ck_assert_int_eq(create(&block, 4 * MIB), 0);
        fail_after(CALL_FALLOCATE, 0, EPERM);
        ck_assert_int_eq(backing->release(backing, &block), 0);
        ck_assert_int_eq(atomic_load(&n_before_failure[CALL_FALLOCATE]), -1);
        ck_assert_int_eq(block.fd, -1);
}

/* Huge pages, if the machine has some, are taken without fallocate. */
static bool takes_small_pages(uint64_t n_bytes)
{
        struct backing_block block;
        struct stat st;

        ck_assert_int_eq(create(&block, n_bytes), 0);
        ck_assert_int_eq(fstat(block.fd, &st), 0);
        backing->release(backing, &block);
        return st.st_blksize < (blksize_t)(2 * MIB);
}

TEST(a_full_machine_is_an_outcome)
{
        static const int errors[] = {ENOSPC, ENOMEM};
        struct backing_block block;

        if (!takes_small_pages(130 * MIB))
                return;
        for (unsigned i = 0; i < ARRAY_SIZE(errors); i++) {
                for (int n = 0; n < 3; n++) {
                        fail_after(CALL_FALLOCATE, n, errors[i]);
                        ck_assert_int_eq(create(&block, 130 * MIB), GPUMEM_E_DEVICE_FULL);
                        fail_after(CALL_MADVISE, n, errors[i]);
                        ck_assert_int_eq(create(&block, 130 * MIB), GPUMEM_E_DEVICE_FULL);
                }
        }
        fail_after(CALL_FALLOCATE, 1, EIO);
        ck_assert_int_eq(create(&block, 130 * MIB), -EIO);
        fail_after(CALL_FALLOCATE, 1, EINTR);
        ck_assert_int_eq(create(&block, 130 * MIB), 0);
        backing->release(backing, &block);
}

/* The kernel's errors where a touch would have raised SIGBUS. */
TEST(faults_that_find_no_page_are_told_from_others)
{
        ck_assert_int_eq(prefault_result(ENOSPC), GPUMEM_E_DEVICE_FULL);
        ck_assert_int_eq(prefault_result(ENOMEM), GPUMEM_E_DEVICE_FULL);
        ck_assert_int_eq(prefault_result(EFAULT), GPUMEM_E_DEVICE_FULL);
        ck_assert_int_eq(prefault_result(EHWPOISON), -EHWPOISON);
        ck_assert_int_eq(prefault_result(0), -EIO);
}

TEST(more_than_the_machine_has_is_never_begun)
{
        struct backing_block block;

        ck_assert_int_eq(create(&block, 4 * TIB), GPUMEM_E_DEVICE_FULL);
        ck_assert_uint_eq(atomic_load(&n_calls[CALL_FALLOCATE]), 0);
}

TEST(a_cancelled_backing_gives_up)
{
        struct backing_block block;

        backing->cancel(backing);
        ck_assert_int_eq(create(&block, 256 * MIB), -ECANCELED);
        ck_assert_uint_eq(atomic_load(&n_calls[CALL_FALLOCATE]), 0);
        ck_assert_uint_eq(atomic_load(&n_calls[CALL_MADVISE]), 0);
}

/* The next block is created. */
TEST(an_abandoned_block_is_given_up)
{
        struct backing_block block = {.n_bytes = 256 * MIB, .fd = -1, .abandoned = true};
        char failure[BACKING_FAILURE_MAX] = "";

        ck_assert_int_eq(backing->create(backing, &block, failure), -ECANCELED);
        ck_assert_int_eq(block.fd, -1);
        ck_assert_uint_eq(atomic_load(&n_calls[CALL_FALLOCATE]), 0);
        ck_assert_int_eq(create(&block, 2 * MIB), 0);
        backing->release(backing, &block);
}

/* Cancelled or abandoned while the first pieces are faulted in: no thread begins another piece. */
TEST(a_prefault_is_cancelled_in_the_middle, .to = 2)
{
        const uint64_t n_bytes = 2 * PREFAULT_MAX_THREADS * PREFAULT_PIECE;
        struct prefault task = {.n_bytes = n_bytes,
                                .way = PREFAULT_ALLOCATE,
                                .name = "pinned",
                                .cancelled = &cancelled,
                                .abandoned = &abandoned};

        ck_assert_int_eq(memfd_new("test", n_bytes, &task.fd), 0);
        ck_assert_int_eq(memfd_map_shared(task.fd, n_bytes, &task.bytes), 0);
        madvise_sets = _i ? &abandoned : &cancelled;
        ck_assert_int_eq(prefault(&task), -ECANCELED);
        ck_assert_uint_ge(file_bytes(task.fd), PREFAULT_PIECE);
        ck_assert_uint_le(file_bytes(task.fd), PREFAULT_MAX_THREADS * PREFAULT_PIECE);
        ck_assert_int_eq(munmap(task.bytes, n_bytes), 0);
        ck_assert_int_eq(close(task.fd), 0);
}

TESTS_MAIN("blocks", .limit_s = 60, .start = start, .stop = stop)
