/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/share_requests.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "daemon/server/pools/gpu_file_access.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"

static_assert(POLICY_SHAREABLE == PROTO_PROPERTY_SHAREABLE,
              "properties are passed on as they come");
static_assert(POLICY_TOKEN_BYTES == 2 * sizeof(uint64_t), "a token is two halves on the wire");

static void refuse(struct session *session, const struct frame *frame, int r)
{
        int code = r > 0 ? r : GPUMEM_E_TOO_MANY;

        session_send_error(session, frame->serial, code,
                           r > 0 ? proto_error_text(code)
                                 : "the daemon lacks the memory or the random bits for it");
}

static struct policy_token from_wire(uint64_t low, uint64_t high)
{
        struct policy_token token;

        memcpy(token.bytes, &low, sizeof(low));
        memcpy(token.bytes + sizeof(low), &high, sizeof(high));
        return token;
}

/* A token is a secret: never fewer random bits than it has. */
static int draw(struct policy_token *ret_token)
{
        struct policy_token token;

        if (getrandom(&token, sizeof(token), 0) != (ssize_t)sizeof(token))
                return err_errno();
        *ret_token = token;
        return 0;
}

static void answer_shared(struct session *session, uint32_t serial,
                          const struct policy_token *token)
{
        struct frame reply = FRAME_NULL;

        memcpy(&reply.shared.token_low, token->bytes, sizeof(uint64_t));
        memcpy(&reply.shared.token_high, token->bytes + sizeof(uint64_t), sizeof(uint64_t));
        session_send(session, &reply, MESSAGE_SHARED, serial, NULL, 0);
}

void share_requests_share(struct session *session, const struct frame *frame)
{
        bool is_granted = frame->share.flags & PROTO_SHARE_GRANT;
        struct policy_share share = {
                .n_bytes = frame->share.n_bytes,
                .granted_uid = is_granted ? frame->share.uid : POLICY_NO_UID,
        };
        int r;

        if (is_granted && frame->share.uid == POLICY_NO_UID)
                r = GPUMEM_E_BAD_REQUEST;
        else
                r = draw(&share.token);
        if (!r)
                r = policy_share(session->server->policy, session->client, frame->share.lease,
                                 &share);
        if (!r && is_granted)
                audit_log_act(session, "grants lease %" PRIu64 " to uid %u", frame->share.lease,
                              (unsigned)share.granted_uid);
        if (r)
                refuse(session, frame, r);
        else
                answer_shared(session, frame->serial, &share.token);
}

void share_requests_attach(struct session *session, const struct frame *frame)
{
        struct policy_token token = from_wire(frame->attach.token_low, frame->attach.token_high);
        struct frame reply = FRAME_NULL;
        struct backing_block *backing;
        struct lease *lease;
        struct block *block;
        uint64_t n_bytes;
        int r;

        if (!session_may_lease(session)) {
                refuse(session, frame, GPUMEM_E_DENIED);
                return;
        }
        r = policy_attach(session->server->policy, session->client, &token, &lease, &n_bytes);
        if (r) {
                refuse(session, frame, r);
                return;
        }
        block = lease_block(lease);
        if (gpu_file_access_refuse(session, frame->serial, block_pool(block))) {
                (void)policy_return(session->server->policy, session->client, lease_id(lease),
                                    RETURN_UNMAPPED, server_now_ns(session->server));
                return;
        }
        event_log_note(session, LISTED_EVENT_GRANTED, block_pool(block), block_bytes(block),
                       "attached by a token");
        backing = block_backing(block);
        reply.attached = (struct message_attached){
                .lease = lease_id(lease),
                .block = block_id(block),
                .n_block_bytes = block_bytes(block),
                .n_bytes = n_bytes,
                .pool = block_pool(block),
                .slot = lease_slot(lease),
        };
        proto_seal(&reply, MESSAGE_ATTACHED, frame->serial, 1);
        transport_send(&session->transport, &reply, &backing->fd, TRANSPORT_OF_BLOCK);
}

void share_requests_detach(struct session *session, const struct frame *frame)
{
        struct server *server = session->server;
        enum return_kind kind = frame->detach.flags & PROTO_RETURN_UNMAPPED ? RETURN_UNMAPPED
                                                                            : RETURN_MAPPED;
        int r = policy_return(server->policy, session->client, frame->detach.lease, kind,
                              server_now_ns(server));

        if (r)
                refuse(session, frame, r);
}

void share_requests_unshare(struct session *session, const struct frame *frame)
{
        struct policy_token token = from_wire(frame->unshare.token_low, frame->unshare.token_high);
        struct frame reply = FRAME_NULL;
        int r = policy_unshare(session->server->policy, session->client, &token);

        if (r)
                refuse(session, frame, r);
        else
                session_send(session, &reply, MESSAGE_UNSHARED, frame->serial, NULL, 0);
}
