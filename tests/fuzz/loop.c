/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/loop.h"

#include "base/err.h"
#include "daemon/server/core/wake.h"
#include "tests/fuzz/fuzz.h"

#define N_HANDLES_MAX 256

enum { IS_ACTIVE = 1, IS_CLOSING = 2 };

static struct {
        uv_handle_t *handles[N_HANDLES_MAX];
        unsigned n_handles;
        uint64_t now_ms;
        uint64_t n_looks; /* at the clock */
} loop;

void loop_begin(void)
{
        FUZZ_EXPECT(loop.n_handles == 0);
        loop.now_ms = 1000;
        loop.n_looks = 0;
}

/* Each look at the clock takes some time, so that a turn of the daemon's is a few of its steps. */
#define LOOK_NS UINT64_C(7000)

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
        uint64_t now_ns = loop.now_ms * 1000000 + ++loop.n_looks * LOOK_NS;

        (void)clock;
        *now = (struct timespec){.tv_sec = (time_t)(now_ns / 1000000000),
                                 .tv_nsec = (long)(now_ns % 1000000000)};
        return 0;
}

static void add(uv_loop_t *uv, void *handle, uv_handle_type type)
{
        uv_handle_t *added = handle;

        FUZZ_EXPECT(loop.n_handles < N_HANDLES_MAX);
        added->loop = uv;
        added->type = type;
        added->flags = 0;
        loop.handles[loop.n_handles++] = added;
}

static void start(void *handle)
{
        FUZZ_EXPECT(!(((uv_handle_t *)handle)->flags & IS_CLOSING));
        ((uv_handle_t *)handle)->flags |= IS_ACTIVE;
}

static void stop(void *handle)
{
        ((uv_handle_t *)handle)->flags &= ~(unsigned)IS_ACTIVE;
}

int uv_loop_init(uv_loop_t *uv)
{
        memset(uv, 0, sizeof(*uv));
        return 0;
}

int uv_loop_close(uv_loop_t *uv)
{
        (void)uv;
        FUZZ_EXPECT(loop.n_handles == 0);
        return 0;
}

uint64_t uv_now(const uv_loop_t *uv)
{
        (void)uv;
        return loop.now_ms;
}

int wake_open(struct wake *wake, uv_loop_t *uv, void (*on_wake)(struct wake *wake))
{
        *wake = (struct wake){.fd = -1, .on_wake = on_wake};
        add(uv, &wake->poll, UV_ASYNC);
        start(&wake->poll);
        return 0;
}

void wake_send(struct wake *wake)
{
        wake->is_sent = true;
}

void wake_deinit(struct wake *wake)
{
        (void)wake;
}

int uv_timer_init(uv_loop_t *uv, uv_timer_t *timer)
{
        add(uv, timer, UV_TIMER);
        return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb call, uint64_t timeout, uint64_t repeat)
{
        if (timer->flags & IS_CLOSING)
                return UV_EINVAL;
        timer->timer_cb = call;
        timer->timeout = loop.now_ms + timeout;
        timer->repeat = repeat;
        start(timer);
        return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
        stop(timer);
        return 0;
}

uint64_t uv_timer_get_due_in(const uv_timer_t *timer)
{
        return timer->timeout > loop.now_ms ? timer->timeout - loop.now_ms : 0;
}

int uv_signal_init(uv_loop_t *uv, uv_signal_t *signal)
{
        add(uv, signal, UV_SIGNAL);
        return 0;
}

int uv_signal_start(uv_signal_t *signal, uv_signal_cb call, int number)
{
        signal->signal_cb = call;
        signal->signum = number;
        start(signal);
        return 0;
}

int uv_queue_work(uv_loop_t *uv, uv_work_t *request, uv_work_cb work, uv_after_work_cb done)
{
        (void)uv;
        (void)request;
        (void)work;
        (void)done;
        return UV_ENOMEM;
}

int uv_is_active(const uv_handle_t *handle)
{
        return handle->flags & IS_ACTIVE && !(handle->flags & IS_CLOSING);
}

int uv_is_closing(const uv_handle_t *handle)
{
        return (handle->flags & IS_CLOSING) != 0;
}

void uv_close(uv_handle_t *handle, uv_close_cb call)
{
        FUZZ_EXPECT(!uv_is_closing(handle));
        handle->close_cb = call;
        handle->flags = IS_CLOSING;
}

void uv_walk(uv_loop_t *uv, uv_walk_cb call, void *argument)
{
        (void)uv;
        for (unsigned i = 0; i < loop.n_handles; i++)
                call(loop.handles[i], argument);
}

static bool close_one(void)
{
        for (unsigned i = 0; i < loop.n_handles; i++) {
                uv_handle_t *handle = loop.handles[i];

                if (!uv_is_closing(handle))
                        continue;
                memmove(&loop.handles[i], &loop.handles[i + 1],
                        (--loop.n_handles - i) * sizeof(loop.handles[0]));
                if (handle->close_cb)
                        handle->close_cb(handle);
                return true;
        }
        return false;
}

static bool call_timer(uv_handle_t *handle)
{
        uv_timer_t *timer = (uv_timer_t *)handle;

        if (timer->timeout > loop.now_ms)
                return false;
        stop(timer);
        if (timer->repeat)
                (void)uv_timer_start(timer, timer->timer_cb, timer->repeat, timer->repeat);
        timer->timer_cb(timer);
        return true;
}

static bool call_wake(uv_handle_t *handle)
{
        struct wake *wake = CONTAINER_OF((uv_poll_t *)handle, struct wake, poll);

        if (!wake->is_sent)
                return false;
        wake->is_sent = false;
        wake->on_wake(wake);
        return true;
}

/* Callbacks may make handles, which have their turn the next time; none goes before it was closed. */
static void call_all(uv_handle_type type, bool (*call)(uv_handle_t *handle))
{
        unsigned n = loop.n_handles;

        for (unsigned i = 0; i < n; i++) {
                if (loop.handles[i]->type == type && uv_is_active(loop.handles[i]))
                        (void)call(loop.handles[i]);
        }
}

int uv_backend_fd(const uv_loop_t *uv)
{
        (void)uv;
        return LOOP_FD;
}

/* It has its turn each time. */
int uv_backend_timeout(const uv_loop_t *uv)
{
        (void)uv;
        return 0;
}

void uv_update_time(uv_loop_t *uv)
{
        (void)uv;
}

/* UV_RUN_DEFAULT: only to have closed what is being closed. */
int uv_run(uv_loop_t *uv, uv_run_mode mode)
{
        (void)uv;
        if (mode == UV_RUN_NOWAIT) {
                call_all(UV_TIMER, call_timer);
                call_all(UV_ASYNC, call_wake);
        }
        while (close_one())
                continue;
        return 0;
}

void loop_pass(uint64_t ms)
{
        loop.now_ms += ms;
}

void loop_signal(int number)
{
        unsigned n = loop.n_handles;

        for (unsigned i = 0; i < n; i++) {
                uv_signal_t *signal = (uv_signal_t *)loop.handles[i];

                if (signal->type == UV_SIGNAL && signal->signum == number &&
                    uv_is_active(loop.handles[i]))
                        signal->signal_cb(signal, number);
        }
}
