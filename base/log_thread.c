/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"

/* How long a process that is about to die waits for the line that the thread is writing. */
#define LAST_LINE_STEPS   20
#define LAST_LINE_STEP_NS 1000000

/* Of one place in the ring. The thread takes a line before it writes it, and a signal handler does, too: one of them
 * writes it. */
enum line_state { LINE_NONE, LINE_WAITS, LINE_IS_TAKEN };

struct line {
        _Atomic int state;
        size_t length;
        char bytes[LOG_LINE_BYTES];
};

static struct {
        pthread_mutex_t lock; /* guards what follows; read without it by the signal handler */
        pthread_cond_t came, gone;
        _Atomic unsigned long first, next; /* lines so far: written, and put into the ring */
        unsigned long n_left_out;
        bool is_on;
        bool is_over;
        pthread_t thread;
        struct line lines[LOG_THREAD_LINES];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/* The caller has the lock, and there is room. */
static void push(const char *bytes, size_t length)
{
        struct line *line = &ring.lines[ring.next % LOG_THREAD_LINES];

        memcpy(line->bytes, bytes, length);
        line->length = length;
        atomic_store(&line->state, LINE_WAITS);
        ring.next++;
}

/* The caller has the lock, and there is room. */
static void push_left_out(void)
{
        char line[LOG_LINE_BYTES];
        size_t length = log_format_left_out(ring.n_left_out, line);

        ring.n_left_out = 0;
        push(line, length);
}

/* The sink of log.h. */
static enum log_sink_result take(const char *line, size_t length)
{
        enum log_sink_result result = LOG_SINK_TAKES;
        unsigned long n_free;

        (void)pthread_mutex_lock(&ring.lock);
        n_free = LOG_THREAD_LINES - (ring.next - ring.first);
        if (!ring.is_on) {
                result = LOG_SINK_DECLINES;
        } else if (n_free <= (ring.n_left_out > 0)) {
                ring.n_left_out++;
        } else {
                if (ring.n_left_out)
                        push_left_out();
                push(line, length);
                (void)pthread_cond_signal(&ring.came);
        }
        (void)pthread_mutex_unlock(&ring.lock);
        return result;
}

/* stderr may be O_NONBLOCK: another process that has it may have made it so. */
static bool wait_for_room(int timeout_ms)
{
        struct pollfd poll_fd = {.fd = STDERR_FILENO, .events = POLLOUT};

        return poll(&poll_fd, 1, timeout_ms) > 0;
}

/* Waits as long as stderr does. What fails cannot be reported. */
static void write_all(const char *bytes, size_t n_bytes)
{
        while (n_bytes) {
                ssize_t n = write(STDERR_FILENO, bytes, n_bytes);

                if (n < 0 && errno == EAGAIN)
                        (void)wait_for_room(-1);
                else if (n < 0 && errno != EINTR)
                        return;
                if (n > 0) {
                        bytes += n;
                        n_bytes -= (size_t)n;
                }
        }
}

static bool claim(struct line *line)
{
        int waits = LINE_WAITS;

        return atomic_compare_exchange_strong(&line->state, &waits, LINE_IS_TAKEN);
}

/* The caller has the lock, which is released while the line is written. */
static void write_first(void)
{
        struct line *line = &ring.lines[ring.first % LOG_THREAD_LINES];

        if (claim(line)) {
                (void)pthread_mutex_unlock(&ring.lock);
                write_all(line->bytes, line->length);
                (void)pthread_mutex_lock(&ring.lock);
        }
        atomic_store(&line->state, LINE_NONE);
        ring.first++;
}

static void *run(void *argument)
{
        (void)argument;
        thread_name_self("gpumemd-log");
        (void)pthread_mutex_lock(&ring.lock);
        while (!ring.is_over) {
                if (ring.first != ring.next)
                        write_first();
                else if (ring.n_left_out)
                        push_left_out();
                else
                        (void)pthread_cond_wait(&ring.came, &ring.lock);
                if (ring.first == ring.next && !ring.n_left_out)
                        (void)pthread_cond_signal(&ring.gone);
        }
        (void)pthread_mutex_unlock(&ring.lock);
        return NULL;
}

/* The process dies: the handler writes what waits, and lets the thread end the line that it has taken. Only calls that
 * are safe in a handler. Then the signal has its own effect. */
static void on_fatal(int number)
{
        int saved = errno;

        for (unsigned i = 0; i < LAST_LINE_STEPS; i++) {
                struct line *line = &ring.lines[ring.first % LOG_THREAD_LINES];

                if (atomic_load(&line->state) != LINE_IS_TAKEN)
                        break;
                (void)nanosleep(&(struct timespec){.tv_nsec = LAST_LINE_STEP_NS}, NULL);
        }
        for (unsigned long i = ring.first; i != ring.next; i++) {
                struct line *line = &ring.lines[i % LOG_THREAD_LINES];

                if (!wait_for_room(0))
                        break;
                if (claim(line) && write(STDERR_FILENO, line->bytes, line->length) < 0)
                        break;
        }
        errno = saved;
        (void)raise(number);
}

/* A sanitizer, or a library, may have a handler of its own, which stays. */
static void watch_fatal_signals(void)
{
        struct sigaction action = {.sa_handler = on_fatal, .sa_flags = (int)SA_RESETHAND};

        for (unsigned i = 0; i < ARRAY_SIZE(fatal_signals); i++) {
                struct sigaction before;

                if (sigaction(fatal_signals[i], NULL, &before) == 0 &&
                    !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL)
                        (void)sigaction(fatal_signals[i], &action, NULL);
        }
}

/* The parent's thread writes the parent's lines. */
static void begin_child(void)
{
        (void)pthread_mutex_init(&ring.lock, NULL);
        ring.is_on = false;
        ring.n_left_out = 0;
        ring.first = ring.next = 0;
}

int log_thread_start(void)
{
        static bool has_handlers;
        int r;

        condition_init_monotonic(&ring.came);
        condition_init_monotonic(&ring.gone);
        ring.is_over = false;
        r = thread_start(run, NULL, &ring.thread);
        if (r)
                return r;
        if (!has_handlers) {
                (void)pthread_atfork(NULL, NULL, begin_child);
                watch_fatal_signals();
                has_handlers = true;
        }
        (void)pthread_mutex_lock(&ring.lock);
        ring.is_on = true;
        (void)pthread_mutex_unlock(&ring.lock);
        log_set_sink(take);
        return 0;
}

/* The caller has the lock. Returns whether all is written. */
static bool drain(void)
{
        struct timespec end = clock_after_ms(LOG_THREAD_END_MS);
        int r = 0;

        while ((ring.first != ring.next || ring.n_left_out) && !r)
                r = pthread_cond_timedwait(&ring.gone, &ring.lock, &end);
        return ring.first == ring.next && !ring.n_left_out;
}

void log_thread_stop(void)
{
        bool is_drained;

        (void)pthread_mutex_lock(&ring.lock);
        if (!ring.is_on) {
                (void)pthread_mutex_unlock(&ring.lock);
                return;
        }
        is_drained = drain();
        ring.is_on = false;
        ring.is_over = true;
        (void)pthread_cond_signal(&ring.came);
        (void)pthread_mutex_unlock(&ring.lock);
        /* One that waits for stderr still would not end. */
        if (is_drained)
                (void)pthread_join(ring.thread, NULL);
        else
                (void)pthread_detach(ring.thread);
}
