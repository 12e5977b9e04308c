/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/share_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "daemon/server/pools/gpu_file_access.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"

static_assert(POLICY_SHAREABLE == PROTO_PROPERTY_SHAREABLE && POLICY_RDMA == PROTO_PROPERTY_RDMA &&
                      POLICY_REGISTERED == PROTO_PROPERTY_REGISTERED,
              "properties are passed on as they come");
static_assert(POLICY_TOKEN_BYTES == 2 * sizeof(uint64_t), "a token is two halves on the wire");

static void refuse(struct session *session, uint32_t serial, int r)
{
        int code = r > 0 ? r : GPUMEM_E_TOO_MANY;

        session_send_error(session, serial, code,
                           r > 0 ? proto_error_text(code)
                                 : "gpumemd lacks memory or random bits for a token");
}

static struct policy_token from_wire(uint64_t low, uint64_t high)
{
        struct policy_token token;

        memcpy(token.bytes, &low, sizeof(low));
        memcpy(token.bytes + sizeof(low), &high, sizeof(high));
        return token;
}

/* A token is a secret: it is never made with fewer random bits than it has. */
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

static void share(struct session *session, uint32_t serial, const struct message_share *wanted,
                  uint32_t keep_ms)
{
        bool is_granted = wanted->flags & PROTO_SHARE_GRANT;
        struct policy_share terms = {
                .n_bytes = wanted->n_bytes,
                .granted_uid = is_granted ? wanted->uid : POLICY_NO_UID,
                .keep_ns = keep_ms * NS_PER_MS,
        };
        int r;

        if (is_granted && wanted->uid == POLICY_NO_UID)
                r = GPUMEM_E_BAD_REQUEST;
        else
                r = draw(&terms.token);
        if (!r)
                r = policy_share(session->server->policy, session->client, wanted->lease, &terms);
        if (!r && is_granted)
                audit_log_client_act(session, "grants lease %" PRIu64 " to uid %u", wanted->lease,
                                     (unsigned)terms.granted_uid);
        if (r)
                refuse(session, serial, r);
        else
                answer_shared(session, serial, &terms.token);
}

void share_requests_share(struct session *session, const struct frame *frame)
{
        share(session, frame->serial, &frame->share, 0);
}

void share_requests_share_kept(struct session *session, const struct frame *frame)
{
        const struct message_share_kept *kept = &frame->share_kept;
        struct message_share wanted = {
                .lease = kept->lease,
                .n_bytes = kept->n_bytes,
                .flags = kept->flags,
                .uid = kept->uid,
        };
        char text[64];

        if (kept->keep_ms <= PROTO_SHARE_KEEP_MS_MAX) {
                share(session, frame->serial, &wanted, kept->keep_ms);
                return;
        }
        (void)snprintf(text, sizeof(text), "invalid keep_ms %" PRIu32 " (expected 0-%" PRIu32 ")",
                       kept->keep_ms, PROTO_SHARE_KEEP_MS_MAX);
        session_send_error(session, frame->serial, GPUMEM_E_BAD_REQUEST, text);
}

void share_requests_attach(struct session *session, const struct frame *frame)
{
        struct policy_token token = from_wire(frame->attach.token_low, frame->attach.token_high);
        struct frame reply = FRAME_NULL;
        struct backing_block *backing;
        struct lease *lease;
        struct block *block;
        uint64_t n_bytes;
        uint32_t pool;
        int r;

        if (!session_may_lease(session)) {
                refuse(session, frame->serial, GPUMEM_E_DENIED);
                return;
        }
        /* Before the lease, which would end what is kept for another client. */
        r = policy_shared_pool(session->server->policy, session->client, &token, &pool);
        if (!r && gpu_file_access_refuse(session, frame->serial, pool))
                return;
        if (!r)
                r = policy_attach(session->server->policy, session->client, &token, &lease,
                                  &n_bytes);
        if (r) {
                refuse(session, frame->serial, r);
                return;
        }
        block = lease_block(lease);
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
                refuse(session, frame->serial, r);
}

void share_requests_unshare(struct session *session, const struct frame *frame)
{
        struct policy_token token = from_wire(frame->unshare.token_low, frame->unshare.token_high);
        struct frame reply = FRAME_NULL;
        int r = policy_unshare(session->server->policy, session->client, &token,
                               server_now_ns(session->server));

        if (r)
                refuse(session, frame->serial, r);
        else
                session_send(session, &reply, MESSAGE_UNSHARED, frame->serial, NULL, 0);
}
