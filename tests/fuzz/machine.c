/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/log.h"
#include "base/size.h"
#include "daemon/backing/pinned/nodes.h"
#include "daemon/backing/worker/errand_thread.h"
#include "daemon/backing/worker/worker.h"
#include "driver/device.h"
#include "gpumem.h"
#include "tests/fuzz/fuzz.h"

#define DEVICE_BYTES (48 * MIB)
#define NODE_BYTES   (160 * MIB)

struct worker {
        struct backing *backing;
        void (*wake)(void *argument);
        void *wake_argument;
        struct job_queue waiting;
        struct job_queue done;
        uint64_t n_bytes; /* in use, or others' */
        bool is_holed;
        bool is_late;
};

static struct {
        struct worker workers[MACHINE_N_POOLS];
        unsigned n_workers;
        unsigned n_jobs;
        unsigned n_blocks;
        uint64_t n_strangers_bytes[MACHINE_N_POOLS];
        int file; /* /dev/null; 0: not yet */
        unsigned n_fds;
} machine;

int machine_file(void)
{
        int fd = dup(machine.file);

        FUZZ_EXPECT(fd >= 0);
        return fd;
}

static unsigned count_fds(void)
{
        DIR *folder = opendir("/proc/self/fd");
        unsigned n = 0;

        FUZZ_EXPECT(folder);
        while (readdir(folder))
                n++;
        (void)closedir(folder);
        return n;
}

void machine_begin(void)
{
        if (!machine.file)
                machine.file = open("/dev/null", O_RDWR | O_CLOEXEC);
        FUZZ_EXPECT(machine.file > 0 && machine.n_workers == 0 && machine.n_jobs == 0);
        memset(machine.n_strangers_bytes, 0, sizeof(machine.n_strangers_bytes));
        machine.n_fds = count_fds();
}

void machine_end(void)
{
        FUZZ_EXPECT(machine.n_workers == 0 && machine.n_jobs == 0 && machine.n_blocks == 0);
        FUZZ_EXPECT(count_fds() == machine.n_fds);
}

unsigned machine_n_jobs(void)
{
        return machine.n_jobs;
}

void machine_set_strangers(unsigned pool, uint64_t n_bytes)
{
        machine.n_strangers_bytes[pool] = n_bytes;
}

void machine_punch(unsigned pool)
{
        if (pool < machine.n_workers)
                machine.workers[pool].is_holed = !machine.workers[pool].is_holed;
}

void machine_hang(unsigned pool)
{
        if (pool < machine.n_workers)
                machine.workers[pool].is_late = true;
}

/* Log texts are made, and thrown away. */
void __wrap_log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
void __wrap_log_line(enum log_level level, const char *format, ...)
{
        char line[1024];
        va_list arguments;

        if (level == LOG_DEBUG)
                return;
        va_start(arguments, format);
        (void)vsnprintf(line, sizeof(line), format, arguments);
        va_end(arguments);
        FUZZ_EXPECT(!strpbrk(line, "\n\r\033"));
}

static struct backing *free_nothing(struct backing *backing)
{
        (void)backing;
        return NULL;
}

static int back_nothing(struct backing **ret_backing)
{
        static struct backing nothing = {.free = free_nothing};

        *ret_backing = &nothing;
        return 0;
}

int __wrap_backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing);
int __wrap_backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing)
{
        (void)cuda;
        (void)ordinal;
        return back_nothing(ret_backing);
}

int __wrap_backing_device_legacy_new(const struct cuda *cuda, int ordinal,
                                     struct backing **ret_backing);
int __wrap_backing_device_legacy_new(const struct cuda *cuda, int ordinal,
                                     struct backing **ret_backing)
{
        return __wrap_backing_device_new(cuda, ordinal, ret_backing);
}

int __wrap_backing_pinned_new(int node, const char *name, struct page_sweeper *sweeper,
                              struct backing **ret_backing);
int __wrap_backing_pinned_new(int node, const char *name, struct page_sweeper *sweeper,
                              struct backing **ret_backing)
{
        (void)node;
        (void)name;
        (void)sweeper;
        return back_nothing(ret_backing);
}

/* What is swept goes at once, and no thread is made for it. */
int __wrap_page_sweeper_new(struct page_sweeper **ret_sweeper);
int __wrap_page_sweeper_new(struct page_sweeper **ret_sweeper)
{
        *ret_sweeper = NULL;
        return 0;
}

void __wrap_page_sweeper_set_after(struct page_sweeper *sweeper, void (*after)(void *argument),
                                   void *argument);
void __wrap_page_sweeper_set_after(struct page_sweeper *sweeper, void (*after)(void *argument),
                                   void *argument)
{
        (void)sweeper;
        (void)after;
        (void)argument;
}

void __wrap_page_sweeper_take_mapping(struct page_sweeper *sweeper, void *take_bytes,
                                      size_t n_bytes);
void __wrap_page_sweeper_take_mapping(struct page_sweeper *sweeper, void *take_bytes,
                                      size_t n_bytes)
{
        (void)sweeper;
        FUZZ_EXPECT(madvise(take_bytes, n_bytes, MADV_REMOVE) == 0);
        FUZZ_EXPECT(munmap(take_bytes, n_bytes) == 0);
}

bool __wrap_page_sweeper_keeps_up(struct page_sweeper *sweeper);
bool __wrap_page_sweeper_keeps_up(struct page_sweeper *sweeper)
{
        (void)sweeper;
        return true;
}

/* Errands are run at once, and no thread is made for them. A "thread" is what they are run with. */
struct errand_thread {
        void *argument;
};

int __wrap_errand_thread_new(const struct errand_rules *rules, struct errand_thread **ret_thread);
int __wrap_errand_thread_new(const struct errand_rules *rules, struct errand_thread **ret_thread)
{
        *ret_thread = malloc(sizeof(**ret_thread));
        FUZZ_EXPECT(*ret_thread);
        (*ret_thread)->argument = rules->argument;
        return 0;
}

void __wrap_errand_thread_put(struct errand_thread *thread, struct errand *take_errand);
void __wrap_errand_thread_put(struct errand_thread *thread, struct errand *take_errand)
{
        take_errand->run(take_errand, thread->argument);
}

struct errand_thread *__wrap_errand_thread_free(struct errand_thread *thread);
struct errand_thread *__wrap_errand_thread_free(struct errand_thread *thread)
{
        free(thread);
        return NULL;
}

int __wrap_device_count(const struct cuda *cuda, int *ret_count);
int __wrap_device_count(const struct cuda *cuda, int *ret_count)
{
        (void)cuda;
        *ret_count = MACHINE_N_DEVICES;
        return 0;
}

int __wrap_device_describe(const struct cuda *cuda, int ordinal, struct device *ret_device);
int __wrap_device_describe(const struct cuda *cuda, int ordinal, struct device *ret_device)
{
        (void)cuda;
        *ret_device = (struct device){.ordinal = ordinal,
                                      .uuid = {(uint8_t)(ordinal + 1)},
                                      .name = "a device",
                                      .n_bytes = DEVICE_BYTES,
                                      .n_granularity_bytes = 2 * MIB,
                                      .numa_node = 0,
                                      .has_rdma = ordinal == 0};
        return 0;
}

void __wrap_nodes_read(const char *root, struct nodes *ret_nodes);
void __wrap_nodes_read(const char *root, struct nodes *ret_nodes)
{
        (void)root;
        *ret_nodes = (struct nodes){.n = MACHINE_N_POOLS - MACHINE_N_DEVICES};
}

void __wrap_node_read_memory(const char *root, int node, struct node_memory *ret_memory);
void __wrap_node_read_memory(const char *root, int node, struct node_memory *ret_memory)
{
        (void)root;
        (void)node;
        *ret_memory = (struct node_memory){.n_total_bytes = NODE_BYTES,
                                           .n_available_bytes = NODE_BYTES};
}

int __wrap_worker_new(struct backing *take_backing, void (*wake)(void *argument),
                      void *wake_argument, struct worker **ret_worker);
int __wrap_worker_new(struct backing *take_backing, void (*wake)(void *argument),
                      void *wake_argument, struct worker **ret_worker)
{
        struct worker *worker = &machine.workers[machine.n_workers++];

        FUZZ_EXPECT(machine.n_workers <= MACHINE_N_POOLS);
        *worker = (struct worker){
                .backing = take_backing, .wake = wake, .wake_argument = wake_argument};
        TAILQ_INIT(&worker->waiting);
        TAILQ_INIT(&worker->done);
        *ret_worker = worker;
        return 0;
}

struct worker *__wrap_worker_free(struct worker *worker);
struct worker *__wrap_worker_free(struct worker *worker)
{
        if (!worker)
                return NULL;
        FUZZ_EXPECT(TAILQ_EMPTY(&worker->waiting) && TAILQ_EMPTY(&worker->done));
        FUZZ_EXPECT(worker->n_bytes == 0);
        machine.n_workers--;
        return NULL;
}

void __wrap_worker_submit(struct worker *worker, struct job *job);
void __wrap_worker_submit(struct worker *worker, struct job *job)
{
        machine.n_jobs++;
        TAILQ_INSERT_TAIL(&worker->waiting, job, link);
}

struct job *__wrap_worker_take_done(struct worker *worker);
struct job *__wrap_worker_take_done(struct worker *worker)
{
        struct job *job = TAILQ_FIRST(&worker->done);

        if (job)
                TAILQ_REMOVE(&worker->done, job, link);
        return job;
}

void __wrap_worker_cancel(struct worker *worker);
void __wrap_worker_cancel(struct worker *worker)
{
        (void)worker;
}

uint64_t __wrap_worker_late_since(const struct worker *worker, uint64_t now_ns);
uint64_t __wrap_worker_late_since(const struct worker *worker, uint64_t now_ns)
{
        return worker->is_late && !TAILQ_EMPTY(&worker->waiting) ? now_ns : 0;
}

/* The server does not ask it whether a lost device is back. */
bool __wrap_worker_needs_driver(const struct worker *worker);
bool __wrap_worker_needs_driver(const struct worker *worker)
{
        (void)worker;
        return false;
}

enum backing_wholeness __wrap_worker_look(const struct worker *worker,
                                          const struct backing_block *block);
enum backing_wholeness __wrap_worker_look(const struct worker *worker,
                                          const struct backing_block *block)
{
        FUZZ_EXPECT(block->fd >= 0);
        return worker->is_holed ? BACKING_HOLED : BACKING_WHOLE;
}

static uint64_t capacity(const struct worker *worker)
{
        return worker - machine.workers < MACHINE_N_DEVICES ? DEVICE_BYTES : NODE_BYTES;
}

static int create(struct worker *worker, struct backing_block *block, enum machine_work how,
                  char *failure)
{
        uint64_t n_strangers_bytes = machine.n_strangers_bytes[worker - machine.workers];

        failure[0] = '\0';
        if (atomic_load(&block->abandoned))
                return -ECANCELED;
        if (how == WORK_FAILS) {
                (void)snprintf(failure, BACKING_FAILURE_MAX, "it has failed");
                return GPUMEM_E_DRIVER;
        }
        if (how == WORK_IS_FULL ||
            worker->n_bytes + block->n_bytes + n_strangers_bytes > capacity(worker))
                return GPUMEM_E_DEVICE_FULL;
        FUZZ_EXPECT(block->n_bytes && block->n_bytes % (2 * MIB) == 0);
        worker->n_bytes += block->n_bytes;
        machine.n_blocks++;
        block->fd = machine_file();
        return 0;
}

void machine_work(unsigned pool, enum machine_work how)
{
        struct worker *worker = &machine.workers[pool];
        struct job *job;

        if (pool >= machine.n_workers || !(job = TAILQ_FIRST(&worker->waiting)))
                return;
        TAILQ_REMOVE(&worker->waiting, job, link);
        worker->is_late = false;
        if (job->kind == JOB_CREATE) {
                job->result = create(worker, job->block, how, job->failure);
        } else {
                FUZZ_EXPECT(job->block->fd >= 0 && worker->n_bytes >= job->block->n_bytes);
                closep(&job->block->fd);
                worker->n_bytes -= job->block->n_bytes;
                machine.n_blocks--;
        }
        machine.n_jobs--;
        TAILQ_INSERT_TAIL(&worker->done, job, link);
        worker->wake(worker->wake_argument);
}
