/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/http.h"

#include <limits.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "metrics/visit.h"

/* Maximum for a request's line and headers. */
#define REQUEST_BYTES_MAX 8192

#define PATH "/metrics"

/* The response text in both formats. */
struct page {
        struct MHD_Response *responses[2]; /* by enum metrics_format; NULL: none */
};

struct http {
        struct MHD_Daemon *daemon;
        struct asker *asker;
        uint32_t wait_ms;
        LIST_HEAD(, visit) visits;
        uint64_t n_begun; /* connections */
        uint64_t n_ended;
        struct page page; /* of the last answer */
        uint64_t page_ms; /* when the last answer came; 0: never */
        uint64_t incarnation;
        bool is_late; /* a request was answered before the asker, without its answer */
        struct metrics_exporter counts;
};

static void page_deinit(struct page *page)
{
        for (unsigned i = 0; i < ARRAY_SIZE(page->responses); i++) {
                if (page->responses[i])
                        MHD_destroy_response(page->responses[i]);
        }
        *page = (struct page){.responses = {NULL}};
}

static int make_response(const struct metrics_figures *figures, enum metrics_format format,
                         struct MHD_Response **ret_response)
{
        const char *type = format == METRICS_OPENMETRICS
                                   ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                   : "text/plain; version=0.0.4; charset=utf-8";
        struct MHD_Response *response;
        size_t n_bytes;
        char *text;
        int r = metrics_render(figures, format, &text, &n_bytes);

        if (r)
                return r;
        response = MHD_create_response_from_buffer(n_bytes, text, MHD_RESPMEM_MUST_FREE);
        if (!response) {
                free(text);
                return -ENOMEM;
        }
        if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) != MHD_YES ||
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES) {
                MHD_destroy_response(response);
                return -ENOMEM;
        }
        *ret_response = response;
        return 0;
}

/* Renders the page. Without memory one format is missing; requests for it get an error. */
static void make_page(const struct http *http, struct metrics_figures *figures,
                      struct page *ret_page)
{
        figures->exporter = &http->counts;
        for (unsigned format = 0; format < ARRAY_SIZE(ret_page->responses); format++) {
                ret_page->responses[format] = NULL;
                (void)make_response(figures, (enum metrics_format)format,
                                    &ret_page->responses[format]);
        }
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *text)
{
        enum MHD_Result result;
        struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)text,
                                                                        MHD_RESPMEM_PERSISTENT);

        if (!response)
                return MHD_NO;
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
                (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        result = MHD_queue_response(connection, status, response);
        MHD_destroy_response(response);
        return result;
}

static enum metrics_format choose_format(struct MHD_Connection *connection)
{
        const char *accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                           MHD_HTTP_HEADER_ACCEPT);

        return accepted && strstr(accepted, "application/openmetrics-text") ? METRICS_OPENMETRICS
                                                                            : METRICS_TEXT;
}

static void set_state(struct visit *visit, enum visit_state state)
{
        visit->state = state;
        visit->since_ms = clock_now_ms();
}

static enum MHD_Result answer(struct visit *visit, const struct page *page)
{
        struct MHD_Response *response = page->responses[choose_format(visit->connection)];

        set_state(visit, VISIT_WRITING);
        if (!response)
                return refuse(visit->connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
        return MHD_queue_response(visit->connection, MHD_HTTP_OK, response);
}

static enum MHD_Result answer_without_daemon(struct http *http, struct visit *visit)
{
        struct metrics_figures figures = METRICS_FIGURES_NULL;
        enum MHD_Result result;
        struct page page;

        make_page(http, &figures, &page);
        result = answer(visit, &page);
        page_deinit(&page);
        return result;
}

/* Requests that come while the daemon is asked, or soon after, share one answer. */
static enum MHD_Result scrape(struct http *http, struct visit *visit)
{
        uint64_t ms = clock_now_ms();

        http->counts.n_scrapes++;
        if (http->page_ms && ms - http->page_ms < HTTP_FRESH_MS)
                return answer(visit, &http->page);
        if (asker_want(http->asker)) {
                http->counts.n_asks++;
                http->is_late = false;
        }
        set_state(visit, VISIT_WAITING);
        MHD_suspend_connection(visit->connection);
        return MHD_YES;
}

/* libmicrohttpd calls this with a request's headers, then with the parts of a body, which are ignored, at
 * its end, and again after a suspension. */
static enum MHD_Result handle(void *argument, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *n_body_bytes, void **place)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(
                connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct visit *visit = info ? info->socket_context : NULL;
        struct http *http = argument;

        (void)version;
        (void)body;
        if (!visit)
                return MHD_NO;
        if (!*place) {
                *place = visit;
                if (strcmp(path, PATH) != 0)
                        return refuse(connection, MHD_HTTP_NOT_FOUND, "metrics are at " PATH "\n");
                if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
                        return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                                      "allowed are GET and HEAD\n");
                return MHD_YES;
        }
        if (*n_body_bytes) {
                *n_body_bytes = 0;
                return MHD_YES;
        }
        if (visit->state == VISIT_READING)
                return scrape(http, visit);
        if (visit->state == VISIT_SERVED)
                return answer(visit, &http->page);
        return visit->state == VISIT_LEFT ? answer_without_daemon(http, visit) : MHD_NO;
}

static void note_visit(void *argument, struct MHD_Connection *connection, void **place,
                       enum MHD_ConnectionNotificationCode what)
{
        const union MHD_ConnectionInfo *info;
        struct http *http = argument;
        struct visit *visit;

        if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
                visit = *place;
                if (visit)
                        LIST_REMOVE(visit, link);
                free(visit);
                *place = NULL;
                http->n_ended++;
                return;
        }
        http->n_begun++;
        visit = calloc(1, sizeof(*visit));
        *place = visit;
        info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!visit) {
                if (info)
                        (void)shutdown(info->connect_fd, SHUT_RDWR);
                return;
        }
        visit->connection = connection;
        visit->fd = info ? info->connect_fd : -1;
        set_state(visit, VISIT_READING);
        LIST_INSERT_HEAD(&http->visits, visit, link);
}

static void resume_all(struct http *http)
{
        struct visit *visit;

        LIST_FOREACH (visit, &http->visits, link) {
                if (visit->state != VISIT_WAITING)
                        continue;
                set_state(visit, VISIT_SERVED);
                MHD_resume_connection(visit->connection);
        }
}

/* Replies that each come in time may be too late together. */
static void count_answer(struct http *http, const struct asker_answer *got)
{
        bool is_up = got->figures.is_up;

        if (!is_up || http->is_late)
                http->counts.n_failures++;
        if (is_up && http->incarnation && got->incarnation != http->incarnation)
                http->counts.n_restarts++;
        if (is_up)
                http->incarnation = got->incarnation;
}

static void take_answer(struct http *http)
{
        struct asker_answer got;

        if (!asker_take(http->asker, &got))
                return;
        count_answer(http, &got);
        page_deinit(&http->page);
        make_page(http, &got.figures, &http->page);
        http->page_ms = clock_now_ms();
        metrics_deinit(&got.figures);
        resume_all(http);
}

/* A request that waited too long for the daemon is answered without it. A client that sends or reads too
 * slowly is disconnected. libmicrohttpd's own timeout does not do that: it starts again with each byte. */
static void end_time(struct http *http, struct visit *visit)
{
        switch (visit->state) {
        case VISIT_WAITING:
                http->is_late = true;
                set_state(visit, VISIT_LEFT);
                MHD_resume_connection(visit->connection);
                break;
        case VISIT_READING:
        case VISIT_WRITING:
                set_state(visit, VISIT_CUT);
                (void)shutdown(visit->fd, SHUT_RDWR);
                break;
        case VISIT_SERVED:
        case VISIT_LEFT:
        case VISIT_CUT:
                break;
        }
}

/* When all places are taken, further connections may wait in the kernel's queue. */
static enum visit_places find_places(const struct http *http)
{
        return http->n_begun - http->n_ended < HTTP_CONNECTIONS_MAX ? VISIT_PLACES_FREE
                                                                    : VISIT_PLACES_TAKEN;
}

static void end_times(struct http *http)
{
        enum visit_places places = find_places(http);
        uint64_t ms = clock_now_ms();
        struct visit *visit;

        LIST_FOREACH (visit, &http->visits, link) {
                if (visit_deadline_ms(visit, places, http->wait_ms) <= ms)
                        end_time(http, visit);
        }
}

/* UINT64_MAX: no deadline. */
static uint64_t next_deadline_ms(const struct http *http)
{
        enum visit_places places = find_places(http);
        const struct visit *visit;
        uint64_t next_ms = UINT64_MAX;

        LIST_FOREACH (visit, &http->visits, link) {
                uint64_t deadline_ms = visit_deadline_ms(visit, places, http->wait_ms);

                if (deadline_ms < next_ms)
                        next_ms = deadline_ms;
        }
        return next_ms;
}

/* The timeout for poll; -1: none. */
static int time_left(const struct http *http)
{
        MHD_UNSIGNED_LONG_LONG limit_ms;
        uint64_t next_ms = next_deadline_ms(http), ms = clock_now_ms();
        uint64_t left_ms = next_ms == UINT64_MAX ? UINT64_MAX : next_ms > ms ? next_ms - ms : 0;

        if (MHD_get_timeout(http->daemon, &limit_ms) == MHD_YES && limit_ms < left_ms)
                left_ms = limit_ms;
        return left_ms == UINT64_MAX ? -1 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int http_run(struct http *http)
{
        uint64_t n_ended = http->n_ended;

        take_answer(http);
        end_times(http);
        (void)MHD_run(http->daemon);
        /* After connections have ended, the next run listens again, so it must come at once. */
        return http->n_ended != n_ended ? 0 : time_left(http);
}

int http_fd(const struct http *http)
{
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon,
                                                               MHD_DAEMON_INFO_EPOLL_FD);

        return info ? info->epoll_fd : -1;
}

int http_new(int take_socket, struct asker *asker, uint32_t wait_ms, struct http **ret_http)
{
        struct http *http = calloc(1, sizeof(*http));

        if (!http) {
                (void)close(take_socket);
                return -ENOMEM;
        }
        http->asker = asker;
        http->wait_ms = wait_ms;
        http->counts.version = PROJECT_VERSION;
        LIST_INIT(&http->visits);
        http->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                                        handle, http, MHD_OPTION_LISTEN_SOCKET, take_socket,
                                        MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
                                        MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                        (size_t)REQUEST_BYTES_MAX, MHD_OPTION_NOTIFY_CONNECTION,
                                        note_visit, http, MHD_OPTION_END);
        if (!http->daemon) {
                (void)close(take_socket);
                free(http);
                return -EIO;
        }
        *ret_http = http;
        return 0;
}

struct http *http_free(struct http *http)
{
        struct visit *visit;

        if (!http)
                return NULL;
        LIST_FOREACH (visit, &http->visits, link) {
                if (visit->state == VISIT_WAITING)
                        MHD_resume_connection(visit->connection);
        }
        MHD_stop_daemon(http->daemon);
        page_deinit(&http->page);
        free(http);
        return NULL;
}
