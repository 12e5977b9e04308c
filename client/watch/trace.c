/* SPDX-License-Identifier: Apache-2.0 */
#include "client/watch/trace.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/watch/trace_format.h"
#include "driver/stream.h"

#define CACHE_LINE 64

/* The ring is full when fewer slots than this are left, so that this many threads may find room at the same time. */
#define N_SPARE_SLOTS 4096
#define N_SLOTS       65536

/* The writer looks this often, and whenever a quarter of the ring was filled. */
#define LOOK_MS  100
#define PAUSE_US 100
#define STALL_US 1000000

/* How many slots the writer reads before it frees them. */
#define N_BATCH 256

struct slot {
        _Atomic uint64_t n_filled; /* the number of its call, from 1 on, once it is filled */
        struct trace_record record;
} __attribute__((aligned(CACHE_LINE)));

static struct slot slots[N_SLOTS];
static _Atomic uint64_t n_taken __attribute__((aligned(CACHE_LINE)));
static _Atomic uint64_t n_done __attribute__((aligned(CACHE_LINE)));
static _Atomic uint64_t n_flushed;
static _Atomic uint64_t n_lost;
static _Atomic bool is_stalled;
static _Atomic bool is_ending;

static pthread_once_t start_once = PTHREAD_ONCE_INIT;
static struct trace_format *lines;
static pthread_t writer;
static sem_t wake;
static pid_t owner; /* 0: nothing was recorded, or this is a forked child */

static bool has_room(void)
{
        uint64_t done = atomic_load_explicit(&n_done, memory_order_acquire);

        return atomic_load_explicit(&n_taken, memory_order_relaxed) - done <
               N_SLOTS - N_SPARE_SLOTS;
}

/* Waits until the count reaches the value. False: it has not moved for a second. */
static bool await(const _Atomic uint64_t *count, uint64_t value)
{
        const struct timespec pause = {.tv_nsec = PAUSE_US * 1000L};
        uint64_t now, before = 0;

        (void)sem_post(&wake);
        for (unsigned waited_us = 0; waited_us < STALL_US; waited_us += PAUSE_US) {
                now = atomic_load_explicit(count, memory_order_acquire);
                if (now >= value)
                        return true;
                if (now != before)
                        waited_us = 0;
                before = now;
                (void)nanosleep(&pause, NULL);
        }
        return false;
}

/* After one wait of a second for a stalled writer, later calls do not wait. */
static bool await_room(void)
{
        uint64_t full = atomic_load(&n_taken) - (N_SLOTS - N_SPARE_SLOTS) + 1;

        if (atomic_load(&is_stalled))
                return false;
        if (await(&n_done, full))
                return true;
        atomic_store(&is_stalled, true);
        return false;
}

static uint64_t put(const struct trace_record *record)
{
        struct slot *slot;
        uint64_t number;

        while (!has_room()) {
                if (!await_room()) {
                        atomic_fetch_add(&n_lost, 1);
                        return 0;
                }
        }
        number = atomic_fetch_add_explicit(&n_taken, 1, memory_order_relaxed);
        slot = &slots[number % N_SLOTS];
        slot->record = *record;
        atomic_store_explicit(&slot->n_filled, number + 1, memory_order_release);
        if (number % (N_SLOTS / 4) == 0)
                (void)sem_post(&wake);
        return number + 1;
}

void trace_alloc(const void *client, const struct cuda *cuda, const struct gpumem_request *request,
                 const void *pointer)
{
        struct trace_record record = {.kind = TRACE_RECORD_ALLOC,
                                      .memory = request->kind,
                                      .owner = (uintptr_t)client,
                                      .address = (uintptr_t)pointer,
                                      .n_bytes = request->n_bytes};
        struct stream_mark mark = {0, 0};

        /* Without a driver or a context all calls have one order, with zeros for the stream. */
        if (cuda)
                (void)stream_look(cuda, request->stream, &mark);
        record.key = (struct stream_key){.context = mark.scope, .id = mark.id};
        (void)put(&record);
}

void trace_free(const void *pointer)
{
        struct trace_record record = {.kind = TRACE_RECORD_FREE, .address = (uintptr_t)pointer};

        (void)put(&record);
}

void trace_disconnect(const void *client)
{
        struct trace_record record = {.kind = TRACE_RECORD_DISCONNECT, .owner = (uintptr_t)client};
        uint64_t number = put(&record);

        if (number)
                (void)await(&n_flushed, number);
}

/* Writes the slots that are filled, up to the first that is not. */
static void write_what_is_there(void)
{
        uint64_t first = atomic_load(&n_done), end = atomic_load(&n_taken), next;
        int r = 0;

        for (next = first; next < end; next++) {
                struct slot *slot = &slots[next % N_SLOTS];

                if (atomic_load_explicit(&slot->n_filled, memory_order_acquire) != next + 1)
                        break;
                r = trace_format_take(lines, &slot->record);
                if ((next + 1) % N_BATCH == 0)
                        atomic_store_explicit(&n_done, next + 1, memory_order_release);
        }
        if (next == first)
                return;
        atomic_store_explicit(&n_done, next, memory_order_release);
        if (!r)
                r = trace_format_flush(lines);
        atomic_store_explicit(&n_flushed, next, memory_order_release);
        atomic_store(&is_stalled, false);
        if (r)
                switch_off(SWITCH_TRACE);
}

static void *write_all(void *nothing)
{
        struct timespec until;

        thread_name_self("gpumem-trace");
        while (!atomic_load(&is_ending)) {
                until = clock_after_ms(LOOK_MS);
                (void)sem_clockwait(&wake, CLOCK_MONOTONIC, &until);
                write_what_is_there();
        }
        return nothing;
}

/* Runs after the program's own destructors, which may free memory. Waits a moment for calls in the middle of which
 * other threads are: these threads may not run any more. */
__attribute__((destructor)) static void end(void)
{
        const struct timespec pause = {.tv_nsec = PAUSE_US * 1000L};

        if (!owner || owner != getpid())
                return;
        switch_off(SWITCH_TRACE);
        atomic_store(&is_ending, true);
        (void)sem_post(&wake);
        (void)pthread_join(writer, NULL);
        write_what_is_there();
        for (unsigned waited_us = 0; waited_us < STALL_US && n_done != n_taken;
             waited_us += PAUSE_US) {
                (void)nanosleep(&pause, NULL);
                write_what_is_there();
        }
        trace_format_free(lines, n_lost + (n_taken - n_done));
}

static void leave_to_parent(void)
{
        if (!owner)
                return;
        owner = 0;
        switch_off(SWITCH_TRACE);
        trace_format_abandon(lines);
}

/* Replaces %p by the process's number, so that one setting serves processes that start each other. */
static char *expand(const char *name)
{
        char *path = NULL;
        size_t n_bytes;
        FILE *text = open_memstream(&path, &n_bytes);

        if (!text)
                return NULL;
        for (; *name; name++) {
                if (name[0] == '%' && name[1] == 'p') {
                        (void)fprintf(text, "%d", (int)getpid());
                        name++;
                } else {
                        (void)fputc(*name, text);
                }
        }
        return fclose(text) == 0 ? path : NULL;
}

static const char *reason(int r)
{
        if (r == -EBUSY)
                return "another process records there (%p in the name is the process's number)";
        if (r == GPUMEM_E_UNSUPPORTED)
                return "a name with .gz needs zlib, libz.so.1";
        return gpumem_strerror(r);
}

static int start_at(const char *path)
{
        char about[160];
        int r;

        (void)snprintf(about, sizeof(about), "%s: recorded by libgpumem-client in process %d",
                       program_invocation_short_name, (int)getpid());
        r = trace_format_new(path, about, &lines);
        if (r)
                return r;
        r = sem_init(&wake, 0, 0) < 0 ? err_errno() : 0;
        if (!r)
                r = -pthread_atfork(NULL, NULL, leave_to_parent);
        if (!r)
                r = thread_start(write_all, NULL, &writer);
        if (r) {
                trace_format_free(steal_ptr(lines), 0);
                return r;
        }
        owner = getpid();
        switch_on(SWITCH_TRACE);
        return 0;
}

static void start(void)
{
        const char *name = secure_getenv("GPUMEM_TRACE");
        CLEANUP(freep)
        char *path = NULL;
        int r = -ENOMEM;

        if (!name || !*name)
                return;
        path = expand(name);
        if (path)
                r = start_at(path);
        if (r)
                log_warning("GPUMEM_TRACE: %s: %s; nothing is recorded", name, reason(r));
}

void trace_start(void)
{
        (void)pthread_once(&start_once, start);
}
