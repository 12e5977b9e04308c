/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/asker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "client/runtime/last_error.h"
#include "metrics/ask.h"

enum state {
        STATE_IDLE,
        STATE_WANTED, /* the thread has not seen the request yet */
        STATE_ASKING,
        STATE_ANSWERED, /* the answer was not taken yet */
        STATE_OVER,     /* the thread must end */
};

struct asker {
        struct asker_wish wish;
        pthread_t thread;
        int event;
        pthread_mutex_t lock; /* guards the fields below */
        pthread_cond_t news;
        enum state state;
        struct asker_answer answer;
};

/* Logs only changes between "answers" and "does not answer". */
static void tell(int r, bool *is_away)
{
        if (r && !*is_away)
                log_warning("gpumemd does not answer: %s", last_error_reason(r));
        else if (!r && *is_away)
                log_info("gpumemd answers again");
        *is_away = r != 0;
}

static struct asker_answer ask(const struct asker_wish *wish, bool *is_away)
{
        struct asker_answer answer = {.figures = METRICS_FIGURES_NULL};

        tell(ask_daemon(wish->socket_path, "gpumemd-exporter", wish->answer_ms, wish->with_tenants,
                        &answer.figures, &answer.incarnation),
             is_away);
        return answer;
}

/* False: the thread must end. */
static bool await_wish(struct asker *asker)
{
        bool goes_on;

        pthread_mutex_lock(&asker->lock);
        while (asker->state != STATE_WANTED && asker->state != STATE_OVER)
                pthread_cond_wait(&asker->news, &asker->lock);
        goes_on = asker->state == STATE_WANTED;
        if (goes_on)
                asker->state = STATE_ASKING;
        pthread_mutex_unlock(&asker->lock);
        return goes_on;
}

static void *serve(void *argument)
{
        struct asker *asker = argument;
        bool is_away = false;

        while (await_wish(asker)) {
                struct asker_answer answer = ask(&asker->wish, &is_away);

                pthread_mutex_lock(&asker->lock);
                asker->answer = answer;
                asker->state = STATE_ANSWERED;
                pthread_mutex_unlock(&asker->lock);
                (void)eventfd_write(asker->event, 1);
        }
        return NULL;
}

/* The thread blocks all signals: the main thread handles them. */
static int start(struct asker *asker)
{
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&asker->thread, NULL, serve, asker);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

static struct asker *destroy(struct asker *asker)
{
        pthread_cond_destroy(&asker->news);
        pthread_mutex_destroy(&asker->lock);
        metrics_deinit(&asker->answer.figures);
        closep(&asker->event);
        free(asker);
        return NULL;
}

int asker_new(const struct asker_wish *wish, struct asker **ret_asker)
{
        struct asker *asker = calloc(1, sizeof(*asker));
        int r;

        if (!asker)
                return -ENOMEM;
        asker->wish = *wish;
        pthread_mutex_init(&asker->lock, NULL);
        pthread_cond_init(&asker->news, NULL);
        asker->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = asker->event < 0 ? err_errno() : start(asker);
        if (r) {
                destroy(asker);
                return r;
        }
        *ret_asker = asker;
        return 0;
}

int asker_fd(const struct asker *asker)
{
        return asker->event;
}

bool asker_want(struct asker *asker)
{
        bool begins;

        pthread_mutex_lock(&asker->lock);
        begins = asker->state == STATE_IDLE;
        if (begins) {
                asker->state = STATE_WANTED;
                pthread_cond_signal(&asker->news);
        }
        pthread_mutex_unlock(&asker->lock);
        return begins;
}

bool asker_take(struct asker *asker, struct asker_answer *ret_answer)
{
        eventfd_t count;
        bool is_there;

        (void)eventfd_read(asker->event, &count);
        pthread_mutex_lock(&asker->lock);
        is_there = asker->state == STATE_ANSWERED;
        if (is_there) {
                *ret_answer = asker->answer;
                asker->answer = (struct asker_answer){.figures = METRICS_FIGURES_NULL};
                asker->state = STATE_IDLE;
        }
        pthread_mutex_unlock(&asker->lock);
        return is_there;
}

struct asker *asker_free(struct asker *asker)
{
        bool is_asking;

        if (!asker)
                return NULL;
        pthread_mutex_lock(&asker->lock);
        is_asking = asker->state == STATE_ASKING || asker->state == STATE_WANTED;
        if (!is_asking) {
                asker->state = STATE_OVER;
                pthread_cond_signal(&asker->news);
        }
        pthread_mutex_unlock(&asker->lock);
        if (is_asking) {
                (void)pthread_detach(asker->thread);
                return NULL;
        }
        (void)pthread_join(asker->thread, NULL);
        return destroy(asker);
}
