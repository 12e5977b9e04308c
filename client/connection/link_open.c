/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes links. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/err.h"
#include "base/thread.h"
#include "client/connection/connect.h"
#include "client/connection/link_private.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

/* Limits each read to half of answer_ms: then the daemon is asked whether it is there. */
static int limit_reading(const struct link *link)
{
        uint32_t ms = link->answer_ms / 2;
        struct timeval timeout = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};

        return setsockopt(link->socket.fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0
                       ? err_errno()
                       : 0;
}

static bool is_turned_away(const struct link *link)
{
        return link->last_code == GPUMEM_E_DENIED || link->last_code == GPUMEM_E_TOO_MANY;
}

/* The daemon answers a HELLO with an ERROR, or closes the connection before it reads one. In the second case the
 * ERROR is about the connection, and the caller gets its code instead of GPUMEM_E_DISCONNECTED. No other thread has
 * the link yet. */
static int set_error_of_answer(const struct link *link, int r)
{
        char name[CONNECT_NAME_MAX], text[GPUMEM_TEXT_BYTES], refusal[LINK_REFUSAL_MAX];
        bool is_end = r == GPUMEM_E_DISCONNECTED;

        if (r <= 0 || (is_end && !is_turned_away(link)))
                return r;
        refusal_frame_text(&link->refusal, refusal);
        (void)snprintf(text, sizeof(text), "%s refuses the connection: %.200s",
                       connect_name(link->socket.fd, name), is_end ? link->last_words : refusal);
        r = is_end ? link->last_code : r;
        last_error_set(r, text);
        return r;
}

/* HELLO comes before anybody knows whether the daemon takes more than ASCII. */
static void say_name(struct link *link, const struct link_hello *said, const struct frame *hello,
                     uint64_t features)
{
        struct frame named = FRAME_NULL;

        proto_put_name(named.named.program, sizeof(named.named.program), said->program);
        if (features & PROTO_FEATURE_NAMES &&
            strcmp(named.named.program, hello->hello.program) != 0)
                (void)link_send(link, &named, MESSAGE_NAMED);
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
        if (!said->seals_board)
                hello.hello.features &= ~PROTO_FEATURE_BOARD;
        hello.hello.incarnation = said->incarnation;
        hello.hello.n_held_bytes = said->n_held_bytes;
        proto_put_text(hello.hello.program, sizeof(hello.hello.program), said->program);
        r = link_call(link, &hello, MESSAGE_HELLO, MESSAGE_WELCOME, &reply, &fds);
        if (r)
                return set_error_of_answer(link, r);
        if (reply.welcome.version != PROTO_VERSION)
                return GPUMEM_E_VERSION;
        say_name(link, said, &hello, reply.welcome.features);
        *ret_welcome = reply.welcome;
        *ret_fds = fds;
        fds = FDSET_NULL;
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
        link->answer_ms = hello->answer_ms ? hello->answer_ms : LINK_ANSWER_MS;
        LIST_INIT(&link->waiters);
        pthread_mutex_init(&link->send_lock, NULL);
        pthread_mutex_init(&link->lock, NULL);
        condition_init_monotonic(&link->news);
        r = connect_open(socket_path, link->answer_ms, &link->socket);
        if (!r)
                r = limit_reading(link);
        if (!r)
                r = say_hello(link, hello, ret_welcome, ret_fds);
        if (r) {
                destroy(link);
                return r;
        }
        *ret_link = link;
        return 0;
}

struct link *link_free(struct link *link)
{
        struct frame bye = FRAME_NULL;

        if (!link)
                return NULL;
        (void)link_send(link, &bye, MESSAGE_BYE);
        return destroy(link);
}
