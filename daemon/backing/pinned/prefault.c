/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/pinned/prefault.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/size.h"
#include "gpumem.h"

#define REPORT_NS UINT64_C(1000000000)

/* Shared by the threads. */
struct crew {
        const struct prefault *prefault;
        _Atomic uint64_t n_begun_bytes; /* where the next piece starts */
        _Atomic uint64_t n_done_bytes;
        _Atomic uint64_t report_ns; /* when to log the progress next */
        atomic_int result;          /* the first failure */
};

int prefault_result(int error)
{
        switch (error) {
        case ENOSPC:
        case ENOMEM:
        /* madvise fails with this where a touch would raise SIGBUS: the node has no huge page left. */
        case EFAULT:
                return GPUMEM_E_DEVICE_FULL;
        case 0:
                return -EIO;
        default:
                return -error;
        }
}

static int fault_piece_in(const struct prefault *prefault, uint64_t start, uint64_t n_bytes)
{
        char *bytes = prefault->bytes;

        if (prefault->way == PREFAULT_ALLOCATE) {
                while (fallocate(prefault->fd, 0, (off_t)start, (off_t)n_bytes) < 0) {
                        if (errno != EINTR)
                                return prefault_result(errno);
                }
        }
        while (madvise(bytes + start, n_bytes, MADV_POPULATE_WRITE) < 0) {
                if (errno != EINTR)
                        return prefault_result(errno);
        }
        return 0;
}

/* Logs the progress. The thread that finds the interval over does it. */
static void report(struct crew *crew, uint64_t n_done_bytes)
{
        char done[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX];
        uint64_t due_ns = atomic_load(&crew->report_ns), at_ns = clock_now_ns();

        if (at_ns < due_ns ||
            !atomic_compare_exchange_strong(&crew->report_ns, &due_ns, at_ns + REPORT_NS))
                return;
        log_debug("%s: %s of %s faulted in", crew->prefault->name, size_format(n_done_bytes, done),
                  size_format(crew->prefault->n_bytes, all));
}

static int next_piece(struct crew *crew, uint64_t *ret_start, uint64_t *ret_bytes)
{
        uint64_t n_bytes = crew->prefault->n_bytes;
        uint64_t start = atomic_fetch_add(&crew->n_begun_bytes, PREFAULT_PIECE);

        if (start >= n_bytes || atomic_load(&crew->result))
                return -ENOENT;
        if (atomic_load(crew->prefault->cancelled) || atomic_load(crew->prefault->abandoned))
                return -ECANCELED;
        *ret_start = start;
        *ret_bytes = n_bytes - start < PREFAULT_PIECE ? n_bytes - start : PREFAULT_PIECE;
        return 0;
}

static void work(struct crew *crew)
{
        uint64_t start, n_bytes;
        int r, none = 0;

        while ((r = next_piece(crew, &start, &n_bytes)) == 0) {
                r = fault_piece_in(crew->prefault, start, n_bytes);
                if (r)
                        break;
                report(crew, atomic_fetch_add(&crew->n_done_bytes, n_bytes) + n_bytes);
        }
        if (r != -ENOENT)
                (void)atomic_compare_exchange_strong(&crew->result, &none, r);
}

static void *run(void *argument)
{
        work(argument);
        return NULL;
}

static unsigned n_threads_for(uint64_t n_bytes)
{
        uint64_t n = (n_bytes + PREFAULT_PIECE - 1) / PREFAULT_PIECE;
        cpu_set_t cpus;

        if (n > PREFAULT_MAX_THREADS)
                n = PREFAULT_MAX_THREADS;
        if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && n > (unsigned)CPU_COUNT(&cpus))
                n = (unsigned)CPU_COUNT(&cpus);
        return (unsigned)n;
}

/* The caller works, too. If no thread can be started, it does everything. */
int prefault(const struct prefault *prefault)
{
        struct crew crew = {.prefault = prefault};
        pthread_t threads[PREFAULT_MAX_THREADS];
        unsigned n_wanted = n_threads_for(prefault->n_bytes), n = 0;

        atomic_store(&crew.report_ns, clock_now_ns() + REPORT_NS);
        while (n + 1 < n_wanted && pthread_create(&threads[n], NULL, run, &crew) == 0)
                n++;
        work(&crew);
        while (n)
                (void)pthread_join(threads[--n], NULL);
        return atomic_load(&crew.result);
}
