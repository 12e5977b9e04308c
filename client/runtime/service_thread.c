/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/service_thread.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/thread.h"
#include "client/runtime/fork_guard.h"
#include "client/runtime/last_error.h"

/* The pause after which the thread polls again while another thread reads the socket. */
#define READER_MS 1

/* All service threads of the process, which its end joins. */
static pthread_mutex_t services_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, service_thread) services = LIST_HEAD_INITIALIZER(services);
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

static void swallow(int fd)
{
        uint64_t n;

        while (read(fd, &n, sizeof(n)) < 0 && errno == EINTR)
                ;
}

static void ring(const struct service_thread *service)
{
        uint64_t one = 1;

        while (write(service->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
                ;
}

/* Waits until the thread is woken, the socket is readable, or a look is due. */
static void wait_for_news(struct service_thread *service, int timeout_ms)
{
        struct pollfd fds[2] = {{.fd = service->wake_fd, .events = POLLIN}};
        void *held = NULL;

        fds[1].fd = service->calls->listen(service->owner, &held);
        fds[1].events = POLLIN;
        (void)poll(fds, 2, timeout_ms);
        if (fds[0].revents)
                swallow(service->wake_fd);
        else if (fds[1].fd >= 0 && fds[1].revents && !service->calls->read(held))
                (void)poll(fds, 1, READER_MS);
        if (held)
                service->calls->leave(held);
}

/* Before it sleeps, the thread clears `awake` and looks once more. Work that was made before is seen by this look; a
 * thread that makes work later sees `awake` cleared, and wakes this one. */
static int look(struct service_thread *service)
{
        int again_ms = service->calls->look(service->owner);

        if (again_ms == SERVICE_THREAD_SOON_MS)
                return again_ms;
        atomic_store(&service->awake, false);
        again_ms = service->calls->look(service->owner);
        if (again_ms == SERVICE_THREAD_SOON_MS)
                atomic_store(&service->awake, true);
        return again_ms;
}

static void *run(void *argument)
{
        struct service_thread *service = argument;

        thread_name_self("gpumem-service");
        /* It must find itself running, or it would wait for services_lock, which begin() and join() hold. */
        atomic_store(&service->running, true);
        service->calls->begin(service->owner);
        while (!atomic_load(&service->ending)) {
                int again_ms = look(service);

                wait_for_news(service, again_ms);
                atomic_store(&service->awake, true);
        }
        return NULL;
}

/* The thread takes no lock that the caller holds. The caller has services_lock. */
static void join(struct service_thread *service)
{
        LIST_REMOVE(service, link);
        atomic_store(&service->ending, true);
        ring(service);
        (void)pthread_join(service->thread, NULL);
        atomic_store(&service->running, false);
}

static void join_all(void)
{
        pthread_mutex_lock(&services_lock);
        while (!LIST_EMPTY(&services))
                join(LIST_FIRST(&services));
        pthread_mutex_unlock(&services_lock);
}

static void before_fork(void)
{
        pthread_mutex_lock(&services_lock);
}

static void after_fork_in_parent(void)
{
        pthread_mutex_unlock(&services_lock);
}

/* The child has none of the threads. */
static void after_fork_in_child(void)
{
        LIST_INIT(&services);
        pthread_mutex_unlock(&services_lock);
}

__attribute__((constructor(FORK_ORDER_SERVICES))) static void watch_forks(void)
{
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Registered after the driver's own exit handler, which loading the driver registered; so it runs before that one. */
static void prepare_end(void)
{
        (void)atexit(join_all);
}

/* The caller has services_lock. A start that fails is not tried again. */
static void begin(struct service_thread *service)
{
        int r;

        service->wake_fd = eventfd(0, EFD_CLOEXEC);
        r = service->wake_fd < 0 ? err_errno() : 0;
        atomic_store(&service->awake, true);
        if (!r)
                r = thread_start(run, service, &service->thread);
        if (r) {
                log_debug("no service thread: %s", strerror(-r));
                closep(&service->wake_fd);
                atomic_store(&service->allowed, false);
                return;
        }
        LIST_INSERT_HEAD(&services, service, link);
        atomic_store(&service->running, true);
}

int service_thread_init(struct service_thread *service, const struct service_thread_owner *calls,
                        void *owner)
{
        const char *text = secure_getenv("GPUMEM_SERVICE_THREAD");
        bool is_denied = text && strcmp(text, "0") == 0;

        *service = (struct service_thread){
                .calls = calls, .owner = owner, .wake_fd = -1, .allowed = !is_denied};
        if (!text || !*text || is_denied || strcmp(text, "1") == 0)
                return 0;
        last_error_set_bad_setting(GPUMEM_E_BAD_SERVICE_THREAD, "GPUMEM_SERVICE_THREAD", text,
                                   "choice; allowed: 0, 1");
        return GPUMEM_E_BAD_SERVICE_THREAD;
}

void service_thread_deinit(struct service_thread *service)
{
        if (!service->calls)
                return;
        pthread_mutex_lock(&services_lock);
        if (service->running)
                join(service);
        pthread_mutex_unlock(&services_lock);
        closep(&service->wake_fd);
}

bool service_thread_wake(struct service_thread *service)
{
        if (!atomic_load(&service->running)) {
                (void)pthread_once(&exit_once, prepare_end);
                pthread_mutex_lock(&services_lock);
                if (!service->running && service_thread_is_allowed(service) && !service->ending)
                        begin(service);
                pthread_mutex_unlock(&services_lock);
        }
        service_thread_nudge(service);
        return atomic_load(&service->running);
}

void service_thread_nudge(struct service_thread *service)
{
        if (atomic_load(&service->running) && !atomic_load(&service->awake))
                ring(service);
}
