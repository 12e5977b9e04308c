#include "daemon/server/paying.h"

#include <inttypes.h>
#include <stdio.h>

#include "gpumem.h"

/* What a frame of a client's costs of its user's pace. */
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
                       NS_PER_S / session->server->pace.step_ns, (unsigned)session->peer.uid);
        session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY, text);
}

uint64_t paying_hold_until(struct transport *transport)
{
        const struct pace_rule *rule = &transport->server->pace;
        const struct pace *pace = &transport->user->pace;
        uint64_t now_ns = server_now_ns(transport->server);

        return pace_may(pace, rule, now_ns) ? 0 : pace_ready_ns(pace, rule, now_ns);
}

/* Who asks for more than the pace of its user allows is not read from until that has room again. Returns
 * whether it has. */
static bool pay(struct session *session)
{
        struct server *server = session->server;
        struct pace *pace = &session->user->pace;
        uint64_t now_ns = server_now_ns(server);
        bool may = pace_may(pace, &server->pace, now_ns);

        pace_take(pace, &server->pace, now_ns);
        if (!may)
                transport_hold(&session->transport, pace_ready_ns(pace, &server->pace, now_ns));
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
