/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/wakes.h"

#include "daemon/server/server.h"
#include "daemon/server/session/session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/peers.h"

/* The loop was last told what the transport remembers to have told it. */
static void check_loop(struct transport *transport)
{
        const uv_handle_t *handle = (const uv_handle_t *)&transport->poll;

        FUZZ_EXPECT((uv_is_active(handle) != 0) == (transport->watched != 0));
        if (transport->watched)
                FUZZ_EXPECT((int)transport->poll.io_watcher.pevents == transport->watched);
}

static void check(struct transport *transport)
{
        bool is_looked_at = transport->polled.list != NULL;

        if (transport->closing) {
                FUZZ_EXPECT(is_looked_at != (uv_is_closing((uv_handle_t *)&transport->poll) != 0));
                return;
        }
        check_loop(transport);
        FUZZ_EXPECT(is_looked_at || (!transport->is_busy && !transport->held_until_ns));
        FUZZ_EXPECT(transport->watched || transport->is_busy);
        if (transport->held_until_ns)
                FUZZ_EXPECT(transport->watched & UV_DISCONNECT && !transport->hung_up);
        else if (!transport->send_queue.n)
                FUZZ_EXPECT(transport->watched & UV_READABLE);
        if (transport->send_queue.n)
                FUZZ_EXPECT(transport->is_busy || transport->watched & UV_WRITABLE);
}

void wakes_check(struct server *server)
{
        struct polling *polling = &server->polling;
        struct session *session;

        if (server_is_stopping(server))
                return;
        LIST_FOREACH (session, &server->sessions, link)
                check(&session->transport);
        FUZZ_EXPECT(!polling->rounds.n || uv_is_active((uv_handle_t *)&polling->timer));
        FUZZ_EXPECT(TAILQ_EMPTY(polling->rounds.now) ||
                    uv_is_active((uv_handle_t *)&polling->idle));
}

void wakes_expect_all_served(const struct server *server)
{
        const struct polling *polling = &server->polling;
        const struct session *session;

        LIST_FOREACH (session, &server->sessions, link) {
                const struct transport *transport = &session->transport;

                if (transport->closing)
                        continue;
                FUZZ_EXPECT(!transport->send_queue.n && !transport->is_busy);
                for (unsigned i = 0; i < N_PEERS; i++)
                        FUZZ_EXPECT(peers.processes[i].fd != transport->fd ||
                                    !peers.processes[i].n_said);
        }
        FUZZ_EXPECT(!polling->rounds.n && !uv_is_active((const uv_handle_t *)&polling->timer));
        FUZZ_EXPECT(!uv_is_active((const uv_handle_t *)&polling->idle));
}
