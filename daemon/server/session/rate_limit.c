/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/rate_limit.h"

#include <inttypes.h>
#include <stdio.h>

#include "gpumem.h"

/* Rows of a reply that cost as much as one request. */
#define ROWS_A_TOKEN 8

/* Blocks, boards and events visited for a reply that cost as much as one request. */
#define LOOKS_A_TOKEN 256

/* How a frame counts against its tenant's rate limit. */
enum price {
        PRICE_NONE,   /* gives something back, or ends something, that exists */
        PRICE_SAID,   /* identifies the client, or reports its memory: never refused */
        PRICE_MEMORY, /* requests memory: delayed, never refused because of the rate */
        PRICE_ANSWER, /* requests a reply */
};

static enum price price_of(const struct session *session, const struct frame *frame)
{
        if (session->way == SESSION_AS_ADMIN)
                return PRICE_NONE;
        switch (frame->kind) {
        case MESSAGE_HELLO:
        case MESSAGE_HELD:
                return PRICE_SAID;
        case MESSAGE_LEASE:
        case MESSAGE_ATTACH:
                return PRICE_MEMORY;
        case MESSAGE_RETURN:
        case MESSAGE_UNMAPPED:
        case MESSAGE_CANCEL:
        case MESSAGE_DETACH:
        case MESSAGE_UNSHARE:
        case MESSAGE_BYE:
                return PRICE_NONE;
        default:
                return PRICE_ANSWER;
        }
}

static void refuse_rate(struct session *session, const struct frame *frame)
{
        char text[96];

        (void)snprintf(text, sizeof(text),
                       "rate limit: more than %" PRIu64 " requests a second of uid %u; retry later",
                       NS_PER_S / session->server->accounts.rule.step_ns,
                       (unsigned)session->peer.uid);
        session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY, text);
}

uint64_t rate_limit_hold_until(struct transport *transport)
{
        uint64_t now_ns = server_now_ns(transport->server);
        uint64_t ready_ns = account_ready_ns(transport->account, now_ns);

        return ready_ns == now_ns ? 0 : ready_ns;
}

/* Charges a request. If the tenant has used up its rate, the daemon stops reading from the connection until
 * the rate allows more. Returns whether the request may be served. */
static bool pay(struct session *session)
{
        struct account *account = session->account;
        uint64_t now_ns = server_now_ns(session->server);
        bool may = account_ready_ns(account, now_ns) == now_ns;

        account_pay(account, now_ns);
        if (!may)
                transport_hold(&session->transport, account_ready_ns(account, now_ns));
        return may;
}

/* A client that hung up while its requests were held back waits for no reply. */
bool rate_limit_may_serve(struct session *session, const struct frame *frame)
{
        enum price price = price_of(session, frame);

        if (price == PRICE_NONE)
                return true;
        if (session->transport.hung_up && price != PRICE_SAID)
                return false;
        if (pay(session) || price != PRICE_ANSWER)
                return true;
        refuse_rate(session, frame);
        return false;
}

void rate_limit_begin(struct session *session)
{
        uint64_t until_ns = rate_limit_hold_until(&session->transport);

        if (until_ns && session->way == SESSION_AS_CLIENT)
                transport_hold(&session->transport, until_ns);
}

void rate_limit_take(struct session *session)
{
        if (session->way == SESSION_AS_CLIENT)
                (void)pay(session);
}

void rate_limit_take_rows(struct session *session, uint64_t n_rows, uint64_t n_looks)
{
        uint64_t now_ns = server_now_ns(session->server), ready_ns;
        uint64_t n_tokens = n_rows / ROWS_A_TOKEN + n_looks / LOOKS_A_TOKEN;

        if (session->way != SESSION_AS_CLIENT)
                return;
        for (uint64_t n = 0; n < n_tokens; n++)
                account_pay(session->account, now_ns);
        ready_ns = account_ready_ns(session->account, now_ns);
        if (n_tokens && ready_ns != now_ns)
                transport_hold(&session->transport, ready_ns);
}

void rate_limit_note_vain(struct session *session, const struct frame *frame)
{
        if (price_of(session, frame) == PRICE_NONE)
                rate_limit_take(session);
}
