/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/requests/reclaim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "daemon/policy/report/listing.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/event_log.h"
#include "gpumem.h"

#define ANY_UID UINT32_MAX

static_assert(sizeof(((struct reclaim *)0)->container) ==
                      sizeof(((struct message_reclaim *)0)->container),
              "it is copied");

static bool is_meant(const struct tenant_key *key, const void *argument)
{
        const struct reclaim *reclaim = argument;

        return (reclaim->uid == ANY_UID || key->uid == reclaim->uid) &&
               (!*reclaim->container || cgroup_container_is_called(key->realm, reclaim->container));
}

static void log_reclaim(const struct session *session, const struct reclaim *reclaim)
{
        char text[400], user[32] = "any user";

        if (reclaim->uid != ANY_UID)
                (void)snprintf(user, sizeof(user), "uid %u", (unsigned)reclaim->uid);
        (void)snprintf(text, sizeof(text), "cached and idle blocks of %s%s%s are freed", user,
                       *reclaim->container ? " in " : "", reclaim->container);
        audit_log_act(session, "%s", text);
        event_log_note(session, LISTED_EVENT_FREED_ALL, PROTO_ALL_POOLS, 0, text);
}

/* A client that waits until nothing is left repeats its request: only the first is logged. */
static bool is_again(const struct reclaim *last, const struct reclaim *reclaim)
{
        return last && last->uid == reclaim->uid &&
               strcmp(last->container, reclaim->container) == 0;
}

static bool release_some(struct walk *walk)
{
        return policy_release_more(walk->asker->server->policy, walk->asker->client,
                                   walk->place.n_items);
}

static void walk_free(struct walk *walk)
{
        free(walk);
}

void reclaim_release(struct session *session, const struct frame *request, struct walk *take_walk)
{
        static bool (*const parts[])(struct walk * walk) = {release_some, NULL};

        walk_begin(session, request, take_walk, parts, walk_free);
}

static int begin(struct session *session, const struct frame *frame)
{
        CLEANUP(freep)
        struct reclaim *reclaim = calloc(1, sizeof(*reclaim));
        CLEANUP(freep)
        struct walk *walk = calloc(1, sizeof(*walk));
        int r;

        if (!reclaim || !walk)
                return -ENOMEM;
        reclaim->serial = frame->serial;
        reclaim->uid = frame->reclaim.uid;
        memcpy(reclaim->container, frame->reclaim.container, sizeof(reclaim->container));
        reclaim->is_again = is_again(session->reclaim, reclaim);
        if (!reclaim->is_again)
                log_reclaim(session, reclaim);
        free(session->reclaim);
        session->reclaim = steal_ptr(reclaim);
        r = policy_reclaim(session->server->policy, session->client, frame->serial, is_meant,
                           session->reclaim);
        if (r)
                session->reclaim->state = RECLAIM_ANSWERED;
        else
                reclaim_release(session, frame, steal_ptr(walk));
        return r;
}

void reclaim_take(struct session *session, const struct frame *frame)
{
        if (!authorization_may_administer(session))
                session_send_error(session, frame->serial, GPUMEM_E_DENIED,
                                   "only root, and clients on the admin socket, may reclaim a "
                                   "tenant's blocks");
        else if (frame->reclaim.uid == ANY_UID && !*frame->reclaim.container)
                session_send_error(session, frame->serial, GPUMEM_E_BAD_REQUEST,
                                   "a uid or a container is required");
        else if (*frame->reclaim.container && session->server->tenancy != TENANCY_OF_CONTAINERS)
                session_send_error(
                        session, frame->serial, GPUMEM_E_BAD_REQUEST,
                        "this gpumemd does not tell tenants apart by container (expected a uid)");
        else if (session->reclaim && session->reclaim->state == RECLAIM_UNDER_WAY)
                session_send_error(session, frame->serial, GPUMEM_E_TOO_MANY,
                                   "another RECLAIM of this client is under way");
        else if (begin(session, frame))
                session_refuse_for_memory(session, frame->serial);
}

/* What the tenants still have, for the answer. */
struct left {
        struct walk walk;
        const struct reclaim *reclaim;
        const struct tenant *last; /* the last tenant that still has blocks */
        const struct tenant *last_meant;
        uint64_t n_shared_bytes;
        struct message_reclaimed reply;
};

static bool is_left(const struct tenant_key *key, const void *argument)
{
        const struct left *left = argument;

        return is_meant(key, left->reclaim);
}

static void add(const struct tenant_listing *tenant, void *argument)
{
        struct left *left = argument;
        uint64_t n_bytes = tenant->leased + tenant->cached + tenant->lingering + tenant->declared;

        if (tenant->tenant != left->last_meant)
                left->reply.n_meant++;
        left->last_meant = tenant->tenant;
        if (*left->reclaim->container)
                cgroup_container_name(tenant->key->realm, left->reply.container);
        left->reply.n_left_bytes += n_bytes;
        left->reply.n_charged_bytes += tenant->charged;
        left->reply.n_clients += (uint32_t)tenant->n_clients;
        if ((n_bytes || tenant->charged) && tenant->tenant != left->last) {
                left->reply.n_tenants++;
                left->last = tenant->tenant;
        }
}

static bool add_tenants(struct walk *walk)
{
        return policy_list_tenants(walk->asker->server->policy, &walk->place, is_left, add,
                                   CONTAINER_OF(walk, struct left, walk));
}

static bool add_shared(struct walk *walk)
{
        struct left *left = CONTAINER_OF(walk, struct left, walk);

        return policy_charged_to_others(walk->asker->server->policy, &walk->place, is_meant,
                                        left->reclaim, &left->n_shared_bytes);
}

static bool answer(struct walk *walk)
{
        struct left *left = CONTAINER_OF(walk, struct left, walk);
        struct frame frame = FRAME_NULL;

        walk->asker->reclaim->state = RECLAIM_ANSWERED;
        frame.reclaimed = left->reply;
        frame.reclaimed.n_shared_bytes = left->n_shared_bytes;
        frame.reclaimed.n_left_bytes -= left->n_shared_bytes < left->reply.n_left_bytes
                                                ? left->n_shared_bytes
                                                : left->reply.n_left_bytes;
        session_send(walk->asker, &frame, MESSAGE_RECLAIMED, walk->request.serial, NULL, 0);
        return false;
}

bool reclaim_answer(struct session *session, const struct action *action)
{
        static bool (*const parts[])(struct walk * walk) = {add_tenants, add_shared, answer, NULL};
        struct reclaim *reclaim = session->reclaim;
        const struct frame request = {.serial = action->serial};
        struct left *left;

        if (!reclaim || reclaim->state != RECLAIM_UNDER_WAY || reclaim->serial != action->serial)
                return false;
        if (action->n_blocks && reclaim->is_again)
                log_reclaim(session, reclaim);
        left = calloc(1, sizeof(*left));
        if (!left) {
                reclaim->state = RECLAIM_ANSWERED;
                session_refuse_for_memory(session, action->serial);
                return true;
        }
        left->reclaim = reclaim;
        left->reply.n_bytes = action->n_bytes;
        left->reply.n_blocks = action->n_blocks;
        walk_begin(session, &request, &left->walk, parts, walk_free);
        return true;
}
