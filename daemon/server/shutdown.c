/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/shutdown.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "daemon/server/core/server_options.h"
#include "daemon/server/session/event_log.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"

/* Between counts of the leases that are left. */
#define LOOK_MS 10

/* Leases of a pool that one count looks at. */
#define LOOKS 1024

/* Clients that the last log lines name. */
#define NAMED_MAX 100

#define STATUS_MAX 200

struct holder {
        const struct session *session;
        uint64_t n_device_bytes, n_pinned_bytes;
};

static uint64_t bytes_of(const struct holder *holder)
{
        return holder->n_device_bytes + holder->n_pinned_bytes;
}

static struct holder find_holder(const struct session *session)
{
        struct holder holder = {.session = session};

        for (uint32_t i = 0; i < session->server->n_pools; i++) {
                uint64_t n_bytes = client_charged(session->client, i);

                if (session->server->pools[i].row.kind == GPUMEM_DEVICE)
                        holder.n_device_bytes += n_bytes;
                else
                        holder.n_pinned_bytes += n_bytes;
        }
        return holder;
}

static unsigned count_holders(const struct server *server)
{
        const struct session *session;
        unsigned n = 0;

        LIST_FOREACH (session, &server->sessions, link) {
                struct holder holder;

                if (!session_has_client(session))
                        continue;
                holder = find_holder(session);
                n += bytes_of(&holder) > 0;
        }
        return n;
}

/* Sorts by bytes held, the largest first. */
static int compare(const void *a, const void *b)
{
        uint64_t n_a = bytes_of(a), n_b = bytes_of(b);

        return n_a > n_b ? -1 : n_a < n_b;
}

static void name_holder(enum log_level level, const struct holder *holder)
{
        const struct session *session = holder->session;
        char device[SIZE_TEXT_MAX], pinned[SIZE_TEXT_MAX];

        log_line(level,
                 "client %d (%s), uid %u: still holds %s of device memory, %s of pinned memory",
                 (int)session->peer.pid, session->program, (unsigned)session->peer.uid,
                 size_format(holder->n_device_bytes, device),
                 size_format(holder->n_pinned_bytes, pinned));
}

static void name_holders(enum log_level level, struct holder *holders, unsigned n)
{
        char size[SIZE_TEXT_MAX];
        uint64_t n_rest_bytes = 0;

        qsort(holders, n, sizeof(*holders), compare);
        for (unsigned i = 0; i < n && i < NAMED_MAX; i++)
                name_holder(level, &holders[i]);
        for (unsigned i = NAMED_MAX; i < n; i++)
                n_rest_bytes += bytes_of(&holders[i]);
        if (n > NAMED_MAX)
                log_line(level, "%u more clients hold %s", n - NAMED_MAX,
                         size_format(n_rest_bytes, size));
}

/* A warning if the daemon has waited for these clients. Without a wait it is usual that clients hold
 * memory. */
static void log_holders(const struct server *server)
{
        enum log_level level = server->shutdown.n_seconds ? LOG_WARNING : LOG_INFO;
        unsigned n_holders = count_holders(server), n = 0;
        struct holder *holders = calloc(n_holders ? n_holders : 1, sizeof(*holders));
        const struct session *session;
        char size[SIZE_TEXT_MAX];

        if (n_holders)
                log_line(level, "clients that still hold memory: %u, with %s; it stays valid",
                         n_holders, size_format(policy_held_bytes(server->policy), size));
        LIST_FOREACH (session, &server->sessions, link) {
                struct holder holder;

                if (!holders || !session_has_client(session))
                        continue;
                holder = find_holder(session);
                if (bytes_of(&holder))
                        holders[n++] = holder;
        }
        if (holders)
                name_holders(level, holders, n);
        free(holders);
}

static void report_status(struct server *server, uint64_t now_ns)
{
        char status[STATUS_MAX], size[SIZE_TEXT_MAX];

        if (!server->on_status || now_ns < server->shutdown.reported_ns + NS_PER_S)
                return;
        server->shutdown.reported_ns = now_ns;
        (void)snprintf(status, sizeof(status),
                       "draining: waiting up to %" PRIu64 " s for %s held by clients: %u",
                       drain_seconds_left(&server->shutdown.drain, now_ns),
                       size_format(policy_held_bytes(server->policy), size), count_holders(server));
        server->on_status(status);
}

/* Every end of the wait passes through here. */
static void go_on(struct server *server)
{
        uint64_t now_ns = server_now_ns(server);

        drain_see(&server->shutdown.drain, policy_held_bytes(server->policy), now_ns);
        if (server->shutdown.drain.state == DRAIN_OVER) {
                log_holders(server);
                server->shutdown.on_over(server);
        } else {
                report_status(server, now_ns);
        }
}

static void on_look(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, shutdown.timer);

        policy_drain_idle(server->policy, LOOKS);
        server_execute(server);
        go_on(server);
}

static void begin(struct server *server)
{
        uint64_t n_held_bytes = policy_held_bytes(server->policy);
        char size[SIZE_TEXT_MAX];

        if (n_held_bytes)
                log_info("new leases are refused; clients hold %s; waiting up to %" PRIu64
                         " s for it",
                         size_format(n_held_bytes, size), server->shutdown.n_seconds);
        event_log_note_node(
                server, LISTED_EVENT_STOPPING, PROTO_ALL_POOLS,
                "gpumemd is shutting down and leases nothing more; it waits up to %" PRIu64
                " s for held memory",
                server->shutdown.n_seconds);
        policy_drain(server->policy, server_now_ns(server));
        (void)uv_timer_start(&server->shutdown.timer, on_look, 0, LOOK_MS);
        server_execute(server);
}

static void on_signal(uv_signal_t *signal, int number)
{
        struct server *server = signal->data;

        if (server->stopping)
                return;
        log_info("%s: shutting down", strsignal(number));
        if (server->shutdown.drain.state == DRAIN_NONE && server->on_stop)
                server->on_stop();
        drain_signal(&server->shutdown.drain, server->shutdown.n_seconds, server_now_ns(server));
        if (server->shutdown.drain.state == DRAIN_WAITS)
                begin(server);
        else
                go_on(server);
}

int shutdown_open(struct server *server, const struct server_options *options,
                  void (*on_over)(struct server *server))
{
        int r;

        server->on_stop = options->on_stop;
        server->on_status = options->on_status;
        server->shutdown.n_seconds = options->settings->n_drain_seconds;
        server->shutdown.on_over = on_over;
        r = uv_timer_init(&server->loop, &server->shutdown.timer);
        if (!r)
                r = uv_signal_init(&server->loop, &server->shutdown.sigterm);
        if (!r)
                r = uv_signal_init(&server->loop, &server->shutdown.sigint);
        if (r)
                return r;
        server->shutdown.sigterm.data = server;
        server->shutdown.sigint.data = server;
        r = uv_signal_start(&server->shutdown.sigterm, on_signal, SIGTERM);
        return r ? r : uv_signal_start(&server->shutdown.sigint, on_signal, SIGINT);
}

void shutdown_close(struct server *server)
{
        uv_close((uv_handle_t *)&server->shutdown.timer, NULL);
        uv_close((uv_handle_t *)&server->shutdown.sigterm, NULL);
        uv_close((uv_handle_t *)&server->shutdown.sigint, NULL);
}
