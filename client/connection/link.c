/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "client/connection/link_private.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/log.h"
#include "client/connection/connect.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"
#include "proto/frame_socket.h"
#include "proto/refusal_text.h"

/* The most frames that one call reads when no thread waits for an answer. */
#define DRAIN_MAX 1024

#define CHATTER_STEP_MS 1000

/* For how long a LEASE waits at least until the daemon takes it. */
#define PLACE_MS 1000

/* A call that waits for an answer. Lives on the caller's stack. */
struct waiter {
        LIST_ENTRY(waiter) link;
        uint32_t serial;
        enum message_kind reply_kind;
        bool is_lease;
        bool answered;
        int result;
        struct frame *reply;
        struct fdset *fds;
};

static void answer(struct link *link, struct waiter *waiter, int result)
{
        waiter->result = result;
        waiter->answered = true;
        link->n_leases -= waiter->is_lease;
        LIST_REMOVE(waiter, link);
}

static void end_link(struct link *link)
{
        struct waiter *waiter;

        link->dead = true;
        (void)shutdown(link->socket.fd, SHUT_RDWR);
        while ((waiter = LIST_FIRST(&link->waiters)))
                answer(link, waiter, GPUMEM_E_DISCONNECTED);
}

static struct waiter *find_waiter(struct link *link, uint32_t serial)
{
        struct waiter *waiter;

        LIST_FOREACH (waiter, &link->waiters, link) {
                if (waiter->serial == serial)
                        return waiter;
        }
        return NULL;
}

/* A LEASE has one of two replies: LEASED or KNOWN. */
static bool is_reply(const struct waiter *waiter, const struct frame *frame)
{
        return frame->kind == waiter->reply_kind ||
               (frame->kind == MESSAGE_KNOWN && waiter->reply_kind == MESSAGE_LEASED);
}

static void log_refusal(const struct frame *frame)
{
        char text[REFUSAL_TEXT_BYTES];

        if (!log_shows(LOG_DEBUG))
                return;
        refusal_frame_text(frame, text);
        log_debug("daemon: %s: %s", gpumem_strerror(refusal_code(frame)), text);
}

/* Without a waiter this is an ERROR about a message of link_send, or a reply that came after its waiter was told of
 * the end. Either is ignored. */
static void take_answer(struct link *link, const struct frame *frame, struct fdset *fds)
{
        struct waiter *waiter = find_waiter(link, frame->serial);
        int code = refusal_code(frame);

        if (code)
                log_refusal(frame);
        if (!waiter)
                return;
        if (code) {
                *waiter->reply = *frame;
                link->refusal = *frame;
                answer(link, waiter, code);
        } else if (is_reply(waiter, frame)) {
                *waiter->reply = *frame;
                *waiter->fds = *fds;
                *fds = FDSET_NULL;
                answer(link, waiter, 0);
        } else {
                answer(link, waiter, -EPROTO);
        }
}

static void take_frame(struct link *link, int r, const struct frame *frame, struct fdset *fds)
{
        if (r == GPUMEM_E_UNKNOWN_KIND)
                return;
        if (!r && frame->kind == MESSAGE_ERROR && frame->serial == 0) {
                link->last_code = (int)frame->error.code;
                (void)snprintf(link->last_words, sizeof(link->last_words), "%s", frame->error.text);
        }
        if (r || (frame->kind == MESSAGE_ERROR && frame->serial == 0))
                end_link(link);
        else if (frame->kind != MESSAGE_NOTICE)
                take_answer(link, frame, fds);
        else if (link->notice)
                link->notice(link->owner, &frame->notice);
}

/* Skips 0: an ERROR of serial 0 is about the connection. The caller has the lock. */
static uint32_t draw_serial(struct link *link)
{
        if (++link->last_serial == 0)
                link->last_serial = 1;
        return link->last_serial;
}

static bool has_news(const struct link *link)
{
        struct pollfd poll_fd = {.fd = link->socket.fd, .events = POLLIN};

        return poll(&poll_fd, 1, 0) > 0;
}

/* -EAGAIN: nothing came for half of answer_ms. */
static int receive(struct link *link, struct frame *frame, struct fdset *fds)
{
        struct proto_reason reason = {"the connection failed", NULL};
        uint64_t since_ms = clock_now_ms();
        int r;

        do
                r = frame_socket_receive(link->socket.fd, FROM_DAEMON, frame, fds, &reason);
        while (r == -EINTR && clock_now_ms() - since_ms < link->answer_ms / 2);
        if (r == GPUMEM_E_BAD_FRAME)
                log_debug("the daemon sent a malformed frame: %s", reason.what);
        return r == -EINTR ? -EAGAIN : r;
}

static int transmit(struct link *link, const struct frame *frame);

/* A request may wait for memory for any time, but a daemon that is there answers this question at once. The caller
 * has the lock, which is dropped meanwhile. */
static void ask_whether_there(struct link *link)
{
        struct frame frame = FRAME_NULL;

        link->is_asked = true;
        proto_seal(&frame, MESSAGE_POOLS, draw_serial(link), 0);
        pthread_mutex_unlock(&link->lock);
        (void)transmit(link, &frame);
        pthread_mutex_lock(&link->lock);
}

/* This process may have been stopped itself: if something has come by now, the daemon was not silent. */
static void note_silence(struct link *link)
{
        if (has_news(link) || link->dead)
                return;
        if (!link->is_asked) {
                ask_whether_there(link);
                return;
        }
        link->is_silent = true;
        end_link(link);
        pthread_cond_broadcast(&link->news);
}

/* Reads one frame, for any waiter; false: none came. The lock is dropped meanwhile. */
static bool read_for_all(struct link *link)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame frame;
        int r;

        link->reading = true;
        pthread_mutex_unlock(&link->lock);
        r = receive(link, &frame, &fds);
        pthread_mutex_lock(&link->lock);
        link->reading = false;
        if (r != -EAGAIN) {
                if (r || frame.kind != MESSAGE_NOTICE) {
                        link->is_asked = false;
                        link->n_answers++;
                }
                take_frame(link, r, &frame, &fds);
        }
        pthread_cond_broadcast(&link->news);
        return r != -EAGAIN;
}

/* The daemon refuses a LEASE while so many of the connection have no answer. So one that other threads' are in the way
 * of waits for their answers, as long as it may wait for memory. The caller has the lock, which is dropped
 * meanwhile. */
static void await_places(struct link *link, struct message_lease *lease, unsigned n)
{
        uint32_t wait_ms = lease->wait_ms > PLACE_MS ? lease->wait_ms : PLACE_MS;
        uint64_t since_ms = clock_now_ms(), n_ms;
        struct timespec end = clock_after_ms(wait_ms);
        int r = 0;

        while (!link->dead && link->n_leases + n > LINK_TOGETHER_MAX && !r)
                r = pthread_cond_timedwait(&link->news, &link->lock, &end);
        n_ms = clock_now_ms() - since_ms;
        lease->wait_ms -= n_ms < lease->wait_ms ? (uint32_t)n_ms : lease->wait_ms;
}

/* Refuses requests on a dead link: the daemon would lease a block that no client uses. */
static int enlist(struct link *link, struct waiter *waiters, unsigned n, enum message_kind kind,
                  struct frame *request)
{
        bool dead;

        pthread_mutex_lock(&link->lock);
        if (kind == MESSAGE_LEASE)
                await_places(link, &request->lease, n);
        dead = link->dead;
        for (unsigned i = 0; i < n && !dead; i++) {
                waiters[i].serial = draw_serial(link);
                waiters[i].is_lease = kind == MESSAGE_LEASE;
                link->n_leases += waiters[i].is_lease;
                LIST_INSERT_HEAD(&link->waiters, &waiters[i], link);
        }
        pthread_mutex_unlock(&link->lock);
        return dead ? GPUMEM_E_DISCONNECTED : 0;
}

/* A daemon may send NOTICEs all the time and answer nothing: measures for how long a waiter has seen that. */
struct chatter {
        uint64_t n_answers; /* the link's, at the last look */
        uint64_t last_ms;
        uint64_t n_ms;
        bool asked;
};

/* Counts a long gap as CHATTER_STEP_MS only, since this process may have been stopped. The caller has the lock, which
 * may be dropped meanwhile. */
static void note_chatter(struct link *link, struct chatter *chatter)
{
        uint64_t ms = clock_now_ms(), n_ms = ms - chatter->last_ms;

        chatter->last_ms = ms;
        if (chatter->n_answers != link->n_answers) {
                *chatter = (struct chatter){.n_answers = link->n_answers, .last_ms = ms};
                return;
        }
        chatter->n_ms += n_ms < CHATTER_STEP_MS ? n_ms : CHATTER_STEP_MS;
        if (chatter->n_ms < link->answer_ms / 2 || link->dead)
                return;
        if (!chatter->asked) {
                chatter->asked = true;
                chatter->n_ms = 0;
                if (!link->is_asked)
                        ask_whether_there(link);
                return;
        }
        link->is_silent = true;
        end_link(link);
        pthread_cond_broadcast(&link->news);
}

static int await(struct link *link, struct waiter *waiter)
{
        struct chatter chatter = {.last_ms = clock_now_ms()};

        pthread_mutex_lock(&link->lock);
        chatter.n_answers = link->n_answers;
        while (!waiter->answered) {
                if (link->reading)
                        pthread_cond_wait(&link->news, &link->lock);
                else if (!read_for_all(link))
                        note_silence(link);
                if (!waiter->answered)
                        note_chatter(link, &chatter);
        }
        pthread_mutex_unlock(&link->lock);
        return waiter->result;
}

/* Handles received frames without waiting, unless another thread reads. Bounded, since more may come for ever. */
static void drain(struct link *link)
{
        pthread_mutex_lock(&link->lock);
        for (unsigned n = 0; n < DRAIN_MAX && !link->reading && !link->dead && has_news(link); n++)
                (void)read_for_all(link);
        pthread_mutex_unlock(&link->lock);
}

void link_stop_notices(struct link *link)
{
        pthread_mutex_lock(&link->lock);
        link->notice = NULL;
        pthread_mutex_unlock(&link->lock);
}

bool link_read_news(struct link *link)
{
        bool can;

        drain(link);
        pthread_mutex_lock(&link->lock);
        can = !link->reading && !link->dead;
        pthread_mutex_unlock(&link->lock);
        return can;
}

/* The reader may already have answered any waiter, so only `answer` takes waiters off the list. */
static void give_up(struct link *link, bool is_silent)
{
        pthread_mutex_lock(&link->lock);
        link->is_silent = link->is_silent || (is_silent && !link->dead);
        end_link(link);
        pthread_cond_broadcast(&link->news);
        pthread_mutex_unlock(&link->lock);
}

/* The daemon reads nothing from a client that does not read: so this reads while it waits to send. */
static void await_room(struct link *link)
{
        struct pollfd poll_fd = {.fd = link->socket.fd, .events = POLLIN | POLLOUT};

        if (poll(&poll_fd, 1, (int)(link->answer_ms / 2)) > 0 && poll_fd.revents & POLLIN)
                drain(link);
}

/* The caller has send_lock. */
static int send_one(struct link *link, const struct frame *frame)
{
        uint64_t since_ms = 0;
        int r;

        while ((r = frame_socket_send_now(link->socket.fd, frame)) == -EAGAIN) {
                if (!since_ms)
                        since_ms = clock_now_ms();
                else if (clock_now_ms() - since_ms >= link->answer_ms)
                        break;
                await_room(link);
        }
        return r;
}

/* A frame that could not be sent ends the link. */
static int conclude(struct link *link, int r)
{
        /* The daemon may have sent a reason before it closed the connection. */
        if (r && r != -EAGAIN)
                drain(link);
        if (r)
                give_up(link, r == -EAGAIN);
        return r == -EAGAIN ? GPUMEM_E_DISCONNECTED : r;
}

static int transmit(struct link *link, const struct frame *frame)
{
        int r;

        pthread_mutex_lock(&link->send_lock);
        r = send_one(link, frame);
        pthread_mutex_unlock(&link->send_lock);
        return conclude(link, r);
}

static void transmit_together(struct link *link, const struct link_exchange *exchanges, unsigned n)
{
        int r = 0;

        pthread_mutex_lock(&link->send_lock);
        for (unsigned i = 0; i < n && !r; i++)
                r = send_one(link, &exchanges[i].request);
        pthread_mutex_unlock(&link->send_lock);
        (void)conclude(link, r);
}

/* Sets the calling thread's last error: why there is no answer. */
static void set_error_of_end(struct link *link)
{
        char name[CONNECT_NAME_MAX], text[GPUMEM_TEXT_BYTES];

        (void)connect_name(link->socket.fd, name);
        pthread_mutex_lock(&link->lock);
        if (link->is_silent)
                (void)snprintf(
                        text, sizeof(text),
                        "%s has not answered for %.3g s: is it stopped, or hung? Programs keep "
                        "their memory while it restarts",
                        name, link->answer_ms / 1000.0);
        else
                (void)snprintf(text, sizeof(text), "%s has ended the connection%s%.200s", name,
                               *link->last_words ? ": " : "", link->last_words);
        pthread_mutex_unlock(&link->lock);
        last_error_set_errno(GPUMEM_E_DISCONNECTED, link->is_silent ? ETIMEDOUT : 0, text);
}

int link_call(struct link *link, struct frame *request, enum message_kind kind,
              enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds)
{
        struct waiter waiter = {.reply_kind = reply_kind, .reply = ret_reply, .fds = ret_fds};

        int r = enlist(link, &waiter, 1, kind, request);

        if (!r) {
                proto_seal(request, kind, waiter.serial, 0);
                (void)transmit(link, request);
                r = await(link, &waiter);
        }
        if (r == GPUMEM_E_DISCONNECTED)
                set_error_of_end(link);
        return r;
}

int link_call_together(struct link *link, struct link_exchange *exchanges, unsigned n,
                       enum message_kind kind, enum message_kind reply_kind)
{
        struct waiter waiters[LINK_TOGETHER_MAX];
        int r;

        for (unsigned i = 0; i < n; i++)
                waiters[i] = (struct waiter){.reply_kind = reply_kind,
                                             .reply = &exchanges[i].reply,
                                             .fds = &exchanges[i].fds};
        r = enlist(link, waiters, n, kind, &exchanges[n - 1].request);
        for (unsigned i = 0; i < n; i++) {
                exchanges[i].result = r;
                if (!r)
                        proto_seal(&exchanges[i].request, kind, waiters[i].serial, 0);
        }
        if (!r) {
                transmit_together(link, exchanges, n);
                for (unsigned i = 0; i < n; i++) {
                        exchanges[i].result = await(link, &waiters[i]);
                        r = exchanges[i].result ? exchanges[i].result : r;
                }
        }
        if (r == GPUMEM_E_DISCONNECTED)
                set_error_of_end(link);
        return r;
}

int link_send(struct link *link, struct frame *frame, enum message_kind kind)
{
        uint32_t serial;

        /* A program that only frees waits for no reply, so the errors must be taken off the socket here. */
        drain(link);
        pthread_mutex_lock(&link->lock);
        serial = draw_serial(link);
        pthread_mutex_unlock(&link->lock);
        proto_seal(frame, kind, serial, 0);
        return transmit(link, frame);
}

void link_refusal(struct link *link, char text[static LINK_REFUSAL_MAX])
{
        struct frame refusal;

        pthread_mutex_lock(&link->lock);
        refusal = link->refusal;
        pthread_mutex_unlock(&link->lock);
        refusal_frame_text(&refusal, text);
}

bool link_is_dead(struct link *link)
{
        bool is_dead;

        pthread_mutex_lock(&link->lock);
        is_dead = link->dead;
        pthread_mutex_unlock(&link->lock);
        return is_dead;
}

bool link_is_silent(struct link *link)
{
        bool is_silent;

        pthread_mutex_lock(&link->lock);
        is_silent = link->is_silent;
        pthread_mutex_unlock(&link->lock);
        return is_silent;
}

int link_socket(const struct link *link)
{
        return link->socket.fd;
}

bool link_is_over(const struct link *link)
{
        struct pollfd poll_fd = {.fd = link->socket.fd, .events = POLLRDHUP};

        return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}
