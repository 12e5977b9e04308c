/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/authorization.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/policy/report/listing.h"

static void be_alone(struct session *session, struct tenant_key *key)
{
        (void)snprintf(key->realm, sizeof(key->realm), "client %" PRIu64,
                       ++session->server->n_alone);
}

static void log_alone(struct session *session)
{
        if (server_may_complain(session->server))
                log_warning("client %d of user %u is a tenant of its own: its container cannot be "
                            "read: %s. To do: run gpumemd where it sees all processes in /proc, or "
                            "set \"tenants\" to \"uid\" or \"client\"",
                            (int)session->peer.pid, session->peer.uid,
                            strerror(-session->peer.container_fault));
}

static_assert(CGROUP_PATH_MAX == POLICY_REALM_MAX && ACCOUNT_REALM_MAX == POLICY_REALM_MAX,
              "a container is a realm");

/* If the container of a process cannot be read, the kernel still tells its network namespace. Pods have one
 * each. */
void authorization_realm(const struct peer *peer, char ret_realm[static POLICY_REALM_MAX])
{
        if (peer->container_fault)
                (void)snprintf(ret_realm, POLICY_REALM_MAX, ACCOUNT_UNREADABLE " %" PRIu64,
                               peer->network);
        else
                memcpy(ret_realm, peer->container, sizeof(peer->container));
}

/* Root in a container may have any number of uids, and so may the user that runs it. */
uint32_t authorization_payer(const struct server *server, const struct peer *peer)
{
        bool is_inside = peer->container_fault ||
                         (*peer->container && strcmp(peer->container, server->own_container) != 0);

        return is_inside && server->tenancy != TENANCY_OF_USERS ? peer->container_owner : peer->uid;
}

/* The user's limits of tenants: one for containers, the same again for clients whose container cannot be
 * read. */
static bool is_one_of_more(const struct session *session)
{
        return account_is_of_more(session->account) ||
               (session->peer.container_fault &&
                account_n_unreadable(session->account) > ACCOUNTS_A_USER);
}

static void be_of_more(struct session *session, struct tenant_key *key)
{
        memcpy(key->realm, ACCOUNT_MORE, sizeof(ACCOUNT_MORE));
        if (server_may_complain(session->server))
                log_warning("client %d of user %u shares a tenant with other clients: the user has "
                            "reached the limit of %u containers",
                            (int)session->peer.pid, session->peer.uid, ACCOUNTS_A_USER);
}

void authorization_find_tenant(struct session *session, struct tenant_key *ret_key)
{
        struct tenant_key key = {.uid = session->peer.uid};

        switch (session->server->tenancy) {
        case TENANCY_OF_CONTAINERS:
                if (is_one_of_more(session)) {
                        be_of_more(session, &key);
                } else if (session->peer.container_fault) {
                        be_alone(session, &key);
                        log_alone(session);
                } else {
                        memcpy(key.realm, session->peer.container, sizeof(key.realm));
                }
                break;
        case TENANCY_OF_CLIENTS:
                be_alone(session, &key);
                break;
        case TENANCY_OF_USERS:
                break;
        }
        *ret_key = key;
}

void authorization_find_owner(const struct session *session, struct tenant_key *ret_key)
{
        const struct account *account = session->account;

        memset(ret_key, 0, sizeof(*ret_key));
        ret_key->uid = account->user->uid;
        if (!account->user->uid)
                memcpy(ret_key->realm, account->realm, sizeof(ret_key->realm));
}

/* The user that starts a container decides who is root in it, and which files of the machine it sees. So
 * uids in a container prove less. */
static bool is_at_home(const struct session *session)
{
        const struct peer *peer = &session->peer;

        if (session->server->tenancy == TENANCY_OF_USERS)
                return true;
        return !peer->container_fault &&
               (!*peer->container || strcmp(peer->container, session->server->own_container) == 0);
}

bool authorization_sees_all(const struct session *session)
{
        return (session->peer.uid == 0 || session->peer.uid == session->server->own_uid) &&
               is_at_home(session);
}

bool authorization_may_administer(const struct session *session)
{
        return (session->peer.uid == 0 || session->way == SESSION_AS_ADMIN) && is_at_home(session);
}

bool authorization_is_operator(const struct session *session)
{
        return authorization_sees_all(session) || authorization_may_administer(session);
}

static bool is_of_same_container(const struct session *asker, const struct process_facts *facts)
{
        return !asker->peer.container_fault && !facts->container_fault &&
               strcmp(facts->container, asker->peer.container) == 0;
}

bool authorization_shows_process(const struct session *asker, pid_t pid,
                                 const struct process_facts *facts)
{
        if (!facts->is_there)
                return false;
        if (authorization_sees_all(asker))
                return true;
        if (facts->uid != asker->peer.uid)
                return false;
        switch (asker->server->tenancy) {
        case TENANCY_OF_USERS:
                return true;
        case TENANCY_OF_CONTAINERS:
                return is_of_same_container(asker, facts);
        case TENANCY_OF_CLIENTS:
                break;
        }
        return pid == asker->peer.pid;
}
