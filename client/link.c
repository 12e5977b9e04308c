#include "client/link.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/log.h"
#include "client/fork.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/wire.h"

/* Somebody who waits for an answer. Lives on that caller's stack. */
struct waiter {
        LIST_ENTRY(waiter) link;
        uint32_t serial;
        enum message_kind reply_kind;
        bool answered;
        int result;
        struct frame *reply;
        struct fdset *fds;
};

struct link {
        struct fork_socket socket;
        pthread_mutex_t send_lock; /* one frame at a time; taken before `lock` */
        pthread_mutex_t lock;      /* guards what follows */
        pthread_cond_t news;       /* an answer came, or the reader's place is free */
        LIST_HEAD(, waiter) waiters;
        uint32_t last_serial;
        void (*notice)(void *owner, uint32_t what);
        void *owner;
        char refusal[LINK_REFUSAL_MAX];
        bool reading; /* one of the waiters is in wire_receive */
        bool dead;
};

static void answer(struct waiter *waiter, int result)
{
        waiter->result = result;
        waiter->answered = true;
        LIST_REMOVE(waiter, link);
}

static void end_link(struct link *link)
{
        struct waiter *waiter;

        link->dead = true;
        (void)shutdown(link->socket.fd, SHUT_RDWR);
        while ((waiter = LIST_FIRST(&link->waiters)))
                answer(waiter, GPUMEM_E_DISCONNECTED);
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

/* A LEASE may have either of two. */
static bool is_reply(const struct waiter *waiter, const struct frame *frame)
{
        return frame->kind == waiter->reply_kind ||
               (frame->kind == MESSAGE_KNOWN && waiter->reply_kind == MESSAGE_LEASED);
}

static bool is_refusal(const struct frame *frame, int *ret_code, const char **ret_text)
{
        if (frame->kind == MESSAGE_ERROR) {
                *ret_code = (int)frame->error.code;
                *ret_text = frame->error.text;
        } else if (frame->kind == MESSAGE_REFUSED) {
                *ret_code = (int)frame->refused.code;
                *ret_text = frame->refused.text;
        } else {
                return false;
        }
        return true;
}

/* An answer to nobody is an ERROR for something sent by link_send, or a reply whose waiter was told
 * of the end: nothing hangs on it. */
static void take_answer(struct link *link, const struct frame *frame, struct fdset *fds)
{
        struct waiter *waiter = find_waiter(link, frame->serial);
        const char *text = NULL;
        int code = 0;
        bool refused = is_refusal(frame, &code, &text);

        if (refused)
                log_debug("daemon: %s: %s", gpumem_strerror(code), text);
        if (!waiter)
                return;
        if (refused) {
                *waiter->reply = *frame;
                (void)snprintf(link->refusal, sizeof(link->refusal), "%s", text);
                answer(waiter, code);
        } else if (is_reply(waiter, frame)) {
                *waiter->reply = *frame;
                *waiter->fds = *fds;
                *fds = (struct fdset)FDSET_NULL;
                answer(waiter, 0);
        } else {
                answer(waiter, -EPROTO);
        }
}

static void take_frame(struct link *link, int r, const struct frame *frame, struct fdset *fds)
{
        if (r == GPUMEM_E_UNKNOWN_KIND)
                return;
        if (r || (frame->kind == MESSAGE_ERROR && frame->serial == 0))
                end_link(link);
        else if (frame->kind != MESSAGE_NOTICE)
                take_answer(link, frame, fds);
        else if (link->notice)
                link->notice(link->owner, frame->notice.what);
}

/* Reads one frame for whom it may concern. The lock is given up meanwhile. */
static void read_for_all(struct link *link)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason = {"the connection failed", NULL};
        struct frame frame;
        int r;

        link->reading = true;
        pthread_mutex_unlock(&link->lock);
        r = wire_receive(link->socket.fd, FROM_DAEMON, &frame, &fds, &reason);
        if (r == GPUMEM_E_BAD_FRAME)
                log_debug("the daemon sent a malformed frame: %s", reason.what);
        pthread_mutex_lock(&link->lock);
        link->reading = false;
        take_frame(link, r, &frame, &fds);
        pthread_cond_broadcast(&link->news);
}

/* 0 is not a request's: an ERROR of serial 0 is about the connection. The caller has the lock. */
static uint32_t draw_serial(struct link *link)
{
        if (++link->last_serial == 0)
                link->last_serial = 1;
        return link->last_serial;
}

/* What a dead link cannot answer is not asked: the daemon would lease a block to nobody. */
static int enlist(struct link *link, struct waiter *waiter)
{
        bool dead;

        pthread_mutex_lock(&link->lock);
        waiter->serial = draw_serial(link);
        dead = link->dead;
        if (!dead)
                LIST_INSERT_HEAD(&link->waiters, waiter, link);
        pthread_mutex_unlock(&link->lock);
        return dead ? GPUMEM_E_DISCONNECTED : 0;
}

static int await(struct link *link, struct waiter *waiter)
{
        pthread_mutex_lock(&link->lock);
        while (!waiter->answered) {
                if (link->reading)
                        pthread_cond_wait(&link->news, &link->lock);
                else
                        read_for_all(link);
        }
        pthread_mutex_unlock(&link->lock);
        return waiter->result;
}

static bool has_news(const struct link *link)
{
        struct pollfd poll_fd = {.fd = link->socket.fd, .events = POLLIN};

        return poll(&poll_fd, 1, 0) > 0;
}

/* Takes what has come and waits for nothing, unless somebody reads anyway. */
static void drain(struct link *link)
{
        pthread_mutex_lock(&link->lock);
        while (!link->reading && !link->dead && has_news(link))
                read_for_all(link);
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

/* The daemon reads nothing from a client that does not listen: whoever waits to speak, listens. */
static void await_room(struct link *link)
{
        struct pollfd poll_fd = {.fd = link->socket.fd, .events = POLLIN | POLLOUT};

        if (poll(&poll_fd, 1, -1) > 0 && poll_fd.revents & POLLIN)
                drain(link);
}

static int transmit(struct link *link, const struct frame *frame)
{
        int r;

        pthread_mutex_lock(&link->send_lock);
        while ((r = wire_send_now(link->socket.fd, frame)) == -EAGAIN)
                await_room(link);
        pthread_mutex_unlock(&link->send_lock);
        return r;
}

/* A request that could not be sent ends the link: its waiter may be answered by the reader already,
 * so there is one place only that takes it off the list. */
static void give_up(struct link *link)
{
        pthread_mutex_lock(&link->lock);
        end_link(link);
        pthread_cond_broadcast(&link->news);
        pthread_mutex_unlock(&link->lock);
}

int link_call(struct link *link, struct frame *request, enum message_kind kind,
              enum message_kind reply_kind, struct frame *ret_reply, struct fdset *ret_fds)
{
        struct waiter waiter = {.reply_kind = reply_kind, .reply = ret_reply, .fds = ret_fds};

        int r = enlist(link, &waiter);

        if (r)
                return r;
        proto_seal(request, kind, waiter.serial, 0);
        if (transmit(link, request))
                give_up(link);
        return await(link, &waiter);
}

int link_send(struct link *link, struct frame *frame, enum message_kind kind)
{
        uint32_t serial;

        /* Of one who only frees, nobody else would take the errors off the socket. */
        drain(link);
        pthread_mutex_lock(&link->lock);
        serial = draw_serial(link);
        pthread_mutex_unlock(&link->lock);
        proto_seal(frame, kind, serial, 0);
        return transmit(link, frame);
}

void link_refusal(struct link *link, char text[static LINK_REFUSAL_MAX])
{
        pthread_mutex_lock(&link->lock);
        memcpy(text, link->refusal, sizeof(link->refusal));
        pthread_mutex_unlock(&link->lock);
}

static int open_socket(const char *socket_path, struct fork_socket *socket)
{
        struct sockaddr_un address;
        int r;

        r = address_to_connect(socket_path, &address);
        if (!r)
                r = fork_socket_open(socket);
        if (r)
                return r;
        if (connect(socket->fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
                log_debug("%s: %s", address.sun_path, strerror(errno));
                return errno == EACCES || errno == EPERM ? GPUMEM_E_DENIED : GPUMEM_E_DISCONNECTED;
        }
        return 0;
}

static int say_hello(struct link *link, const struct link_hello *said,
                     struct message_welcome *ret_welcome, struct fdset *ret_fds)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame hello = FRAME_NULL, reply;
        int r;

        hello.hello.magic = PROTO_MAGIC;
        hello.hello.version = PROTO_VERSION;
        hello.hello.features = PROTO_FEATURES;
        hello.hello.incarnation = said->incarnation;
        hello.hello.n_held_bytes = said->n_held_bytes;
        proto_put_text(hello.hello.program, sizeof(hello.hello.program), said->program);
        r = link_call(link, &hello, MESSAGE_HELLO, MESSAGE_WELCOME, &reply, &fds);
        if (r)
                return r;
        if (reply.welcome.version != PROTO_VERSION)
                return GPUMEM_E_VERSION;
        *ret_welcome = reply.welcome;
        *ret_fds = fds;
        fds = (struct fdset)FDSET_NULL;
        return 0;
}

static struct link *destroy(struct link *link)
{
        fork_socket_close(&link->socket);
        pthread_cond_destroy(&link->news);
        pthread_mutex_destroy(&link->lock);
        pthread_mutex_destroy(&link->send_lock);
        free(link);
        return NULL;
}

int link_open(const char *socket_path, const struct link_hello *hello, struct link **ret_link,
              struct message_welcome *ret_welcome, struct fdset *ret_fds)
{
        struct link *link = calloc(1, sizeof(*link));
        int r;

        if (!link)
                return -ENOMEM;
        link->socket.fd = -1;
        link->notice = hello->notice;
        link->owner = hello->owner;
        LIST_INIT(&link->waiters);
        pthread_mutex_init(&link->send_lock, NULL);
        pthread_mutex_init(&link->lock, NULL);
        pthread_cond_init(&link->news, NULL);
        r = open_socket(socket_path, &link->socket);
        if (!r)
                r = say_hello(link, hello, ret_welcome, ret_fds);
        if (r) {
                destroy(link);
                return r;
        }
        *ret_link = link;
        return 0;
}

int link_new(const char *socket_path, const char *program, struct link **ret_link,
             struct message_welcome *ret_welcome, struct fdset *ret_fds)
{
        struct link_hello hello = {.program = program};

        return link_open(socket_path, &hello, ret_link, ret_welcome, ret_fds);
}

struct link *link_free(struct link *link)
{
        struct frame bye = FRAME_NULL;

        if (!link)
                return NULL;
        (void)link_send(link, &bye, MESSAGE_BYE);
        return destroy(link);
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
