#include "daemon/server/session/answers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "daemon/backing/worker/page_sweeper.h"
#include "daemon/server/session/session.h"

#define LOOK_MS 1000

/* More than any row has. */
#define FIRST_BYTES 4096

static size_t smaller(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* Who copies rows meanwhile looks at the first one again: it goes before the others. */
static void take_back(struct answer *answer)
{
        struct server *server = answer->session->server;

        if (!server->stopping)
                memset(answer->bytes, 0, smaller(answer->n_bytes, FIRST_BYTES));
        server_take_back(server, answer->bytes, answer->n_bytes);
        TAILQ_REMOVE(&server->answers.list, answer, of_all);
        TAILQ_REMOVE(&answer->session->answers, answer, of_session);
        server->answers.n--;
        server->answers.n_bytes -= answer->n_bytes;
        answer->session->n_answers--;
        free(answer);
}

static void on_look(uv_timer_t *timer)
{
        struct server *server = timer->data;
        uint64_t now_ns = server_now_ns(server);
        struct answer *answer;

        while ((answer = TAILQ_FIRST(&server->answers.list)) &&
               now_ns - answer->since_ns >= ANSWERS_KEPT_S * NS_PER_S)
                take_back(answer);
        if (!answer)
                (void)uv_timer_stop(timer);
}

void server_take_back(struct server *server, void *take_bytes, size_t n_bytes)
{
        if (server->stopping)
                (void)munmap(take_bytes, n_bytes);
        else
                page_sweeper_take_mapping(server->sweeper, take_bytes, n_bytes);
}

int answers_open(struct server *server)
{
        TAILQ_INIT(&server->answers.list);
        server->answers.timer.data = server;
        return uv_timer_init(&server->loop, &server->answers.timer);
}

void answers_close(struct server *server)
{
        uv_close((uv_handle_t *)&server->answers.timer, NULL);
}

void answers_end(struct session *session)
{
        struct answer *answer;

        while ((answer = TAILQ_FIRST(&session->answers)))
                take_back(answer);
}

static void make_room(struct session *session, size_t n_bytes)
{
        struct server *server = session->server;

        if (session->n_answers == ANSWERS_A_SESSION)
                take_back(TAILQ_FIRST(&session->answers));
        while (server->answers.n == ANSWERS_MAX ||
               (server->answers.n && server->answers.n_bytes + n_bytes > ANSWERS_MAX_BYTES))
                take_back(TAILQ_FIRST(&server->answers.list));
}

static void keep(struct session *session, struct answer *answer)
{
        struct server *server = session->server;

        make_room(session, answer->n_bytes);
        answer->session = session;
        answer->since_ns = server_now_ns(server);
        TAILQ_INSERT_TAIL(&server->answers.list, answer, of_all);
        TAILQ_INSERT_TAIL(&session->answers, answer, of_session);
        server->answers.n++;
        server->answers.n_bytes += answer->n_bytes;
        session->n_answers++;
        if (!uv_is_active((uv_handle_t *)&server->answers.timer))
                (void)uv_timer_start(&server->answers.timer, on_look, LOOK_MS, LOOK_MS);
}

int answers_make(struct session *session, const void *rows, size_t n_bytes, int *ret_fd)
{
        CLEANUP(freep)
        struct answer *answer = malloc(sizeof(*answer));
        CLEANUP(closep)
        int fd = -1;
        int r;

        if (!answer)
                return -ENOMEM;
        r = memfd_new("gpumem-rows", n_bytes, &fd);
        if (!r && n_bytes)
                r = memfd_map_shared(fd, n_bytes, &answer->bytes);
        if (r)
                return r;
        if (n_bytes) {
                memcpy(answer->bytes, rows, n_bytes);
                answer->n_bytes = n_bytes;
                keep(session, steal_ptr(answer));
        }
        *ret_fd = steal_fd(&fd);
        return 0;
}
