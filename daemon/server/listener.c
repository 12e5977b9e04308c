/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/listener.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/core/server_options.h"
#include "daemon/server/core/wake.h"
#include "daemon/server/session/audit_log.h"
#include "daemon/server/session/authorization.h"
#include "daemon/server/session/session.h"
#include "daemon/server/transport/acceptor.h"
#include "daemon/server/transport/lanes.h"
#include "daemon/server/transport/slow_socket.h"
#include "daemon/server/transport/socket_file.h"
#include "daemon/server/transport/transport.h"
#include "gpumem.h"
#include "proto/address.h"

#define ARRIVALS_A_STEP 4

struct listen_socket {
        struct listener *listener;
        enum session_way way;
        struct sockaddr_un address;
        int fd;
        struct acceptor *acceptor;
        struct wake accepted; /* the acceptor has something */
        struct task taking;   /* ARRIVALS_A_STEP connections a step */
        bool has_file;        /* the file is this daemon's, which removes it */
};

/* A connection that was accepted: it becomes a session at the expense of its user. */
struct arrival {
        struct task task;
        LIST_ENTRY(arrival) link;
        struct listener *listener;
        struct account *account; /* NULL: it is for the admin socket */
        enum session_way way;
        struct accepted accepted;
};

struct listener {
        struct server *server;
        LIST_HEAD(, arrival) arrivals;
        unsigned n_arrivals_max; /* of a user: later ones are turned away */
        struct listen_socket sockets[SESSION_N_WAYS];
        unsigned n_open_handles;
        int lock_fd;
};

static void arrival_free(struct arrival *arrival)
{
        payer_take_out(&arrival->task);
        LIST_REMOVE(arrival, link);
        if (arrival->account)
                account_end_arrival(arrival->account);
        (void)account_unref(arrival->account);
        free(arrival);
}

static uint64_t owner_of(const struct arrival *arrival)
{
        const struct scheduler *scheduler = &arrival->listener->server->scheduler;

        return arrival->account ? arrival->account->payer.owner : scheduler->admin.owner;
}

/* What is slow to close is closed by others. */
static void close_accepted(struct server *server, uint64_t owner, struct accepted *take_accepted)
{
        slow_socket_close(server, owner, steal_fd(&take_accepted->peer.pidfd));
        if (take_accepted->peer_fd != take_accepted->fd)
                slow_socket_close_peers(server, owner, take_accepted->peer_fd);
        if (take_accepted->fd >= 0)
                slow_socket_close_peers(server, owner, take_accepted->fd);
}

/* If the user is slow, its lane serves the connection. Returns whether that can be done. Otherwise the peer is not told: to send
 * takes the kernel long. */
static bool goes_apart(struct server *server, struct account *account, uint64_t owner,
                       struct accepted *accepted)
{
        if (slow_socket_to_lane(server, owner, accepted->peer_fd, &accepted->fd) == 0)
                return true;
        if (!accepted->fault)
                audit_log_turned_away(server, account, &accepted->peer, TRANSPORT_UNSERVED);
        slow_socket_close_peers(server, owner, accepted->fd);
        accepted->fd = accepted->peer_fd = -1;
        return false;
}

static void let_in(struct task *task)
{
        struct arrival *arrival = CONTAINER_OF(task, struct arrival, task);
        struct server *server = arrival->listener->server;
        enum session_way way = arrival->way;
        struct accepted accepted = arrival->accepted;
        uint64_t owner = owner_of(arrival), since_ns;
        bool is_taken = goes_apart(server, arrival->account, owner, &accepted);

        arrival_free(arrival);
        since_ns = clock_now_ns();
        is_taken = is_taken && !transport_has_gone(accepted.fd) &&
                   session_accept(server, &accepted, way);
        slow_socket_note(server, owner, since_ns);
        if (!is_taken)
                close_accepted(server, owner, &accepted);
}

static void turn_away(struct server *server, struct account *account, uint64_t owner,
                      struct accepted *take_accepted)
{
        bool is_there = goes_apart(server, account, owner, take_accepted);
        uint64_t since_ns = clock_now_ns();

        if (is_there && !transport_has_gone(take_accepted->fd))
                transport_turn_away(
                        take_accepted->fd, GPUMEM_E_TOO_MANY,
                        "too many processes of this user connect at this moment; try again");
        slow_socket_note(server, owner, since_ns);
        close_accepted(server, owner, take_accepted);
}

/* The user that connected pays for the step, too. */
static void send_away(struct task *task)
{
        struct arrival *arrival = CONTAINER_OF(task, struct arrival, task);
        struct server *server = arrival->listener->server;
        struct accepted accepted = arrival->accepted;
        uint64_t owner = owner_of(arrival);

        if (arrival->account)
                scheduler_charge_also(&server->scheduler, &arrival->account->payer);
        turn_away(server, arrival->account, owner, &accepted);
        arrival_free(arrival);
}

static struct payer *payer_of(const struct listen_socket *socket)
{
        struct scheduler *scheduler = &socket->listener->server->scheduler;

        return socket->way == SESSION_AS_ADMIN ? &scheduler->admin : &scheduler->arriving;
}

/* A connection is sent away before more are taken, but after those whose turn comes now. */
static int arrival_new(struct listen_socket *socket, struct account *account,
                       const struct accepted *take_accepted)
{
        struct arrival *arrival = calloc(1, sizeof(*arrival));
        bool comes_in = !account || account_may_arrive(account, socket->listener->n_arrivals_max);

        if (!arrival)
                return -ENOMEM;
        *arrival = (struct arrival){.task = {.step = comes_in ? let_in : send_away},
                                    .listener = socket->listener,
                                    .account = account,
                                    .way = socket->way,
                                    .accepted = *take_accepted};
        LIST_INSERT_HEAD(&socket->listener->arrivals, arrival, link);
        if (account) {
                payer_ref(&account->payer);
                account_arrive(account);
        }
        payer_put(comes_in && account ? &account->payer : payer_of(socket), &arrival->task);
        return 0;
}

static uint32_t payer_uid(const struct server *server, const struct accepted *accepted)
{
        return accepted->fault ? accepted->uid : authorization_payer(server, &accepted->peer);
}

static int find_account(struct server *server, const struct accepted *accepted,
                        struct account **ret_account)
{
        char realm[POLICY_REALM_MAX] = "";

        if (!accepted->fault)
                authorization_realm(&accepted->peer, realm);
        return account_ref(&server->accounts, payer_uid(server, accepted), realm, ret_account);
}

/* The user that connects pays, too. */
static void arrive(struct listen_socket *socket, struct accepted *take_accepted)
{
        struct server *server = socket->listener->server;
        uint64_t since_ns = clock_now_ns();
        struct account *account = NULL;
        int r = 0;

        if (socket->way == SESSION_AS_CLIENT)
                r = find_account(server, take_accepted, &account);
        if (!r)
                r = arrival_new(socket, account, take_accepted);
        if (r)
                turn_away(server, account, account ? account->payer.owner : take_accepted->uid,
                          take_accepted);
        if (account)
                payer_charge(&account->payer, clock_now_ns() - since_ns);
        (void)account_unref(account);
}

static void go_on_taking(struct listen_socket *socket)
{
        payer_put(payer_of(socket), &socket->taking);
}

static void take_some(struct task *task)
{
        struct listen_socket *socket = CONTAINER_OF(task, struct listen_socket, taking);
        struct accepted accepted;

        for (unsigned i = 0; i < ARRIVALS_A_STEP; i++) {
                if (!acceptor_take(socket->acceptor, &accepted))
                        return;
                arrive(socket, &accepted);
        }
        go_on_taking(socket);
}

static void wake(void *argument)
{
        wake_send(argument);
}

static void on_accepted(struct wake *accepted)
{
        struct listen_socket *socket = CONTAINER_OF(accepted, struct listen_socket, accepted);

        if (acceptor_take_shortage(socket->acceptor) &&
            server_may_complain(socket->listener->server))
                log_error("audit: uid ?, process ?: refused: gpumemd has no file descriptor left "
                          "for a connection; raise LimitNOFILE or ulimit -n");
        go_on_taking(socket);
}

static const char *address_fault(int r)
{
        if (r == -ENAMETOOLONG)
                return "the path is longer than 107 bytes, including " ADDRESS_ADMIN_SUFFIX
                       " of the admin socket";
        return r == -EINVAL ? "the path is empty" : "XDG_RUNTIME_DIR is not set";
}

static int find_places(struct listener *listener, const char *named)
{
        struct sockaddr_un *address = &listener->sockets[SESSION_AS_CLIENT].address;
        int r = address_to_listen(named, address);

        if (!r)
                r = address_of_admin(address, &listener->sockets[SESSION_AS_ADMIN].address);
        if (r)
                log_error("no path for the socket: %s; set one with --socket", address_fault(r));
        return r;
}

static int serve_socket(struct listen_socket *socket)
{
        struct server *server = socket->listener->server;
        int r = wake_open(&socket->accepted, &server->loop, on_accepted);

        if (r)
                return r;
        socket->listener->n_open_handles++;
        /* An administrator waits for no user. */
        return acceptor_new(socket->fd, server_fd_closer(server),
                            socket->way == SESSION_AS_ADMIN ? NULL : server->lanes, wake,
                            &socket->accepted, &socket->acceptor);
}

static int open_socket(struct listen_socket *socket, mode_t mode, gid_t group)
{
        int r = socket_file_open(&socket->address, mode, group, &socket->fd);

        if (r)
                return r;
        socket->has_file = true;
        return serve_socket(socket);
}

/* Socket units override the options for path and group: warns of options that have no effect. */
static void warn_of_vain(const struct listen_socket *socket, const struct server_options *options)
{
        struct sockaddr_un named;

        if (options->socket_path && address_to_listen(options->socket_path, &named) == 0 &&
            strcmp(named.sun_path, socket->address.sun_path) != 0)
                log_warning("the socket path %s is ignored: systemd passed a socket at %s; change "
                            "ListenSequentialPacket= of the socket units instead",
                            named.sun_path, socket->address.sun_path);
        if (options->group != SOCKET_FILE_OWN_GROUP)
                log_warning("%s: the group setting is ignored; set SocketGroup= of the socket unit "
                            "instead",
                            socket->address.sun_path);
}

/* Takes over systemd's sockets. systemd owns their files. */
static int adopt_sockets(struct listener *listener, const struct server_options *options)
{
        const int fds[SESSION_N_WAYS] = {
                [SESSION_AS_CLIENT] = options->sockets->client,
                [SESSION_AS_ADMIN] = options->sockets->admin,
        };
        int r = 0;

        for (unsigned way = 0; way < SESSION_N_WAYS && !r; way++) {
                struct listen_socket *socket = &listener->sockets[way];
                socklen_t n = sizeof(socket->address);

                if (fds[way] < 0)
                        continue;
                socket->fd = fds[way];
                (void)getsockname(socket->fd, (struct sockaddr *)&socket->address, &n);
                r = socket_file_adopt(socket->fd);
                if (!r)
                        r = serve_socket(socket);
        }
        warn_of_vain(&listener->sockets[SESSION_AS_CLIENT], options);
        return r;
}

/* Opens the clients' socket last: a client that can connect finds the admin socket, too. */
static int open_sockets(struct listener *listener, const struct server_options *options)
{
        struct listen_socket *sockets = listener->sockets;
        int r;

        if (options->sockets && options->sockets->client >= 0)
                return adopt_sockets(listener, options);
        r = find_places(listener, options->socket_path);
        if (!r)
                r = socket_file_check_folder(&sockets[SESSION_AS_CLIENT].address);
        if (!r)
                r = socket_file_lock(&sockets[SESSION_AS_CLIENT].address, &listener->lock_fd);
        if (!r)
                r = open_socket(&sockets[SESSION_AS_ADMIN], 0600, SOCKET_FILE_OWN_GROUP);
        if (!r)
                r = open_socket(&sockets[SESSION_AS_CLIENT], 0660, options->group);
        return r;
}

static void listener_free(struct listener *listener)
{
        for (unsigned way = 0; way < SESSION_N_WAYS; way++) {
                if (listener->sockets[way].fd >= 0)
                        transport_close_socket(listener->server, listener->sockets[way].fd);
                wake_deinit(&listener->sockets[way].accepted);
        }
        closep(&listener->lock_fd);
        free(listener);
}

static void on_closed(uv_handle_t *handle)
{
        struct listen_socket *socket = CONTAINER_OF((uv_poll_t *)handle, struct listen_socket,
                                                    accepted.poll);

        if (--socket->listener->n_open_handles == 0)
                listener_free(socket->listener);
}

struct listener *listener_close(struct listener *listener)
{
        if (!listener)
                return NULL;
        while (!LIST_EMPTY(&listener->arrivals)) {
                struct arrival *arrival = LIST_FIRST(&listener->arrivals);

                close_accepted(listener->server, owner_of(arrival), &arrival->accepted);
                arrival_free(arrival);
        }
        for (unsigned way = 0; way < SESSION_N_WAYS; way++) {
                struct listen_socket *socket = &listener->sockets[way];

                if (socket->has_file)
                        (void)unlink(socket->address.sun_path);
                socket->acceptor = acceptor_free(socket->acceptor);
                payer_take_out(&socket->taking);
                if (socket->accepted.fd >= 0)
                        uv_close((uv_handle_t *)&socket->accepted.poll, on_closed);
        }
        if (!listener->n_open_handles)
                listener_free(listener);
        return NULL;
}

/* Clients may have connected to inherited sockets, and sent fds, before gpumemd forbade fds on them. */
static int guard_loop(struct server *server, const struct server_options *options)
{
        bool can_refuse = socket_file_refuses_fds();
        int r;

        if (!can_refuse)
                log_debug("this kernel (before 6.16) lets clients send file descriptors");
        server->may_get_fds = !can_refuse || (options->sockets && options->sockets->client >= 0);
        r = fd_closer_new(&server->closer);
        if (!r)
                lanes_set_closer(server->lanes, server_fd_closer(server));
        return r;
}

int listener_new(struct server *server, const struct server_options *options,
                 struct listener **ret_listener)
{
        struct listener *listener = calloc(1, sizeof(*listener));
        int r;

        if (!listener)
                return -ENOMEM;
        listener->server = server;
        LIST_INIT(&listener->arrivals);
        listener->n_arrivals_max = fd_limits_max_arrivals();
        listener->lock_fd = -1;
        for (unsigned way = 0; way < SESSION_N_WAYS; way++)
                listener->sockets[way] = (struct listen_socket){.listener = listener,
                                                                .way = (enum session_way)way,
                                                                .fd = -1,
                                                                .accepted = WAKE_NULL,
                                                                .taking = {.step = take_some}};
        r = guard_loop(server, options);
        if (!r)
                r = open_sockets(listener, options);
        if (r) {
                listener_close(listener);
                return r;
        }
        log_info("serving %s", listener->sockets[SESSION_AS_CLIENT].address.sun_path);
        *ret_listener = listener;
        return 0;
}
