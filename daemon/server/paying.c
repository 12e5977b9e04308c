#include "daemon/server/paying.h"

#include <inttypes.h>
#include <stdio.h>

#include "gpumem.h"

/* What a frame of a client's costs of its tenant's pace. */
enum price {
        PRICE_NONE,   /* it gives something back, or ends something; if that is there */
        PRICE_MEMORY, /* it asks for memory: that is put off, and never refused for the pace */
        PRICE_ANSWER, /* it asks for an answer */
};

static enum price price_of(const struct session *session, const struct frame *frame)
{
        if (session->way == SESSION_AS_ADMIN)
                return PRICE_NONE;
        switch (frame->kind) {
        case MESSAGE_LEASE:
        case MESSAGE_ATTACH:
        case MESSAGE_HELD:
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

static void refuse_pace(struct session *session, const struct frame *frame)
{
        char text[96];

        (void)snprintf(text, sizeof(text),
                       "more than %" PRIu64 " requests a second of uid %u; ask again later",
                       NS_PER_S / session->server->accounts.pace.step_ns,
                       (unsigned)session->peer.uid);
        session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY, text);
}

uint64_t paying_hold_until(struct transport *transport)
{
        uint64_t now_ns = server_now_ns(transport->server);
        uint64_t ready_ns = account_ready_ns(transport->account, now_ns);

        return ready_ns == now_ns ? 0 : ready_ns;
}

/* Who asks for more than the pace of its tenant allows is not read from until that has room again. Returns
 * whether it has. */
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

bool paying_may_serve(struct session *session, const struct frame *frame)
{
        enum price price = price_of(session, frame);

        if (price == PRICE_NONE || pay(session) || price == PRICE_MEMORY)
                return true;
        refuse_pace(session, frame);
        return false;
}

void paying_note_error(struct session *session, const struct frame *frame)
{
        if (session->way == SESSION_AS_CLIENT && price_of(session, frame) == PRICE_NONE)
                (void)pay(session);
}
