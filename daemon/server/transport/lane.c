/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/transport/lane.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/thread.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/backing/worker/fd_closer.h"
#include "daemon/fairness/slow_users.h"
#include "gpumem.h"
#include "proto/frame_socket.h"

#define EVENTS_A_LOOK 64

/* Carried for one link before the next has its turn. */
#define FRAMES_A_TURN 16

/* Before another try, where the kernel has no memory for a frame. */
#define REST_US 1000

/* The kernel makes it as large as it must be. While a client does not read, the loop's socket fills, and the loop sees that;
 * at the end the client's has room for all of that. */
#define ROOM_LEAST 1
#define ROOM_MOST  (1 << 20)

/* One byte more than any frame has, so that a longer one stays too long. */
#define DATAGRAM_MAX (sizeof(struct frame) + 1)

/* One side of a link. */
struct side {
        struct link *link;
        int fd;
        uint32_t armed; /* events for which the thread is woken, once */
        bool has_hung_up;
};

/* One direction: at most one frame is under way. */
struct passage {
        bool is_full;
        bool has_ended; /* nothing more comes */
};

struct link {
        LIST_ENTRY(link) link;
        struct side client, loop;
        struct passage up, down; /* to the loop, and to the client: */
        char datagram[DATAGRAM_MAX];
        size_t n_bytes;
        struct frame frame;
        struct fdset fds;
        bool is_up_told; /* the loop, that the client has ended */
        bool is_over;
};

LIST_HEAD(link_list, link);

struct closing {
        SLIST_ENTRY(closing) link;
        int fd;
};

SLIST_HEAD(closing_list, closing);

struct lane {
        pthread_t thread;
        int set_fd;  /* an epoll set */
        int wake_fd; /* an eventfd in it: there is something to close, or the thread shall end */
        atomic_bool is_ending;
        atomic_uint *n_all;  /* of all lanes, */
        atomic_uint n_links; /* and its own */
        struct fd_closer *closer;
        _Atomic uint64_t slow_ns;
        pthread_mutex_t lock; /* guards the lists */
        struct link_list links;
        struct closing_list closings;
};

static void note_call(struct lane *lane, uint64_t since_cpu_ns)
{
        if (clock_thread_cpu_ns() - since_cpu_ns > SLOW_USER_NS)
                atomic_store(&lane->slow_ns, clock_now_ns());
}

static bool has_hung_up(int fd)
{
        struct pollfd end = {.fd = fd, .events = POLLRDHUP};

        return poll(&end, 1, 0) > 0 && end.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Where the kernel lets clients send fds, to receive them, and to drop them, may take as long as the client likes. So a frame
 * is received only after it was looked at. Returns whether it may be. */
static bool brings_no_fds(const struct lane *lane, struct link *link)
{
        bool brings = false;
        int r = lane->closer ? frame_socket_brings_fds(link->client.fd, &brings) : 0;

        link->up.has_ended = r == GPUMEM_E_DISCONNECTED || brings;
        return !r && !brings;
}

static void take_from_client(struct lane *lane, struct link *link)
{
        uint64_t since_ns = clock_thread_cpu_ns();
        ssize_t n;

        if (!brings_no_fds(lane, link))
                return;
        n = recv(link->client.fd, link->datagram, DATAGRAM_MAX, MSG_DONTWAIT);

        /* A reset is reported once, before the frames that were sent until then. */
        if (n < 0 && errno == ECONNRESET)
                n = recv(link->client.fd, link->datagram, DATAGRAM_MAX, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        note_call(lane, since_ns);
        link->up.has_ended = n < 0 || (n == 0 && has_hung_up(link->client.fd));
        link->up.is_full = !link->up.has_ended;
        link->n_bytes = (size_t)n;
}

/* Other processes of the user have too many fds in flight, or the kernel lacks memory. This passes. */
static bool is_for_shortage(int r)
{
        return r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM;
}

/* If the loop has closed its side, the frame is for nothing. */
static void give_to_loop(struct link *link)
{
        ssize_t n = send(link->loop.fd, link->datagram, link->n_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        link->up.is_full = n < 0 && (errno == EAGAIN || is_for_shortage(-errno));
        if (link->up.is_full && errno != EAGAIN)
                clock_sleep_us(REST_US);
}

static void take_from_loop(struct link *link)
{
        struct proto_reason reason;
        int r = frame_socket_receive(link->loop.fd, FROM_DAEMON, &link->frame, &link->fds, &reason);

        link->down.is_full = r == 0;
        link->down.has_ended = r && r != -EAGAIN && r != -EINTR;
        /* Its fds could not be taken: the connection lacks a frame now, so it ends. */
        if (link->down.has_ended && r != GPUMEM_E_DISCONNECTED)
                (void)shutdown(link->loop.fd, SHUT_RDWR);
}

static void drop_fds(struct link *link)
{
        fdset_deinit(&link->fds);
        link->fds = FDSET_NULL;
}

static void give_to_client(struct lane *lane, struct link *link)
{
        uint64_t since_ns = clock_thread_cpu_ns();
        int r = frame_socket_send(link->client.fd, &link->frame, link->fds.fds);

        if (r == -EAGAIN)
                return;
        note_call(lane, since_ns);
        if (is_for_shortage(r)) {
                clock_sleep_us(REST_US);
                return;
        }
        /* The connection lacks a frame now, so it ends. Where the client has ended, nothing does. */
        if (r && r != GPUMEM_E_DISCONNECTED) {
                link->down.has_ended = true;
                (void)shutdown(link->loop.fd, SHUT_RDWR);
        }
        link->down.is_full = false;
        drop_fds(link);
}

/* Both return whether there may be more. */
static bool carry_up(struct lane *lane, struct link *link)
{
        struct passage *up = &link->up;

        if (!up->is_full && !up->has_ended)
                take_from_client(lane, link);
        if (!up->is_full)
                return false;
        give_to_loop(link);
        return !up->is_full;
}

static bool carry_down(struct lane *lane, struct link *link)
{
        struct passage *down = &link->down;

        if (!down->is_full && !down->has_ended)
                take_from_loop(link);
        if (!down->is_full)
                return false;
        give_to_client(lane, link);
        return !down->is_full;
}

static void set_room(int client_fd, int n_bytes)
{
        (void)setsockopt(client_fd, SOL_SOCKET, SO_SNDBUF, &n_bytes, sizeof(n_bytes));
}

/* The loop has ended its side, so nothing waits: what the client's socket does not take now is lost. The loop may have the
 * client's socket for a while. */
static void finish(struct lane *lane, struct link *link)
{
        set_room(link->client.fd, ROOM_MOST);
        while (carry_down(lane, link))
                ;
        (void)shutdown(link->client.fd, SHUT_RDWR);
        link->is_over = true;
}

static void arm(struct lane *lane, struct side *side, uint32_t events)
{
        struct epoll_event event = {.events = events | (uint32_t)EPOLLONESHOT, .data.ptr = side};

        if (!events || events == side->armed)
                return;
        side->armed = events;
        (void)epoll_ctl(lane->set_fd, EPOLL_CTL_MOD, side->fd, &event);
}

static uint32_t wanted(const struct passage *in, const struct passage *out)
{
        return (!in->is_full && !in->has_ended ? EPOLLIN : 0) | (out->is_full ? EPOLLOUT : 0);
}

static void serve(struct lane *lane, struct link *link)
{
        struct passage *up = &link->up;

        if (link->loop.has_hung_up) {
                finish(lane, link);
                return;
        }
        for (unsigned i = 0; i < FRAMES_A_TURN && carry_up(lane, link); i++)
                ;
        for (unsigned i = 0; i < FRAMES_A_TURN && carry_down(lane, link); i++)
                ;
        if (up->has_ended && !up->is_full && !link->is_up_told) {
                link->is_up_told = true;
                (void)shutdown(link->loop.fd, SHUT_WR);
        }
        arm(lane, &link->client, wanted(up, &link->down));
        arm(lane, &link->loop, wanted(&link->down, up) | EPOLLRDHUP);
}

static void count(struct lane *lane)
{
        atomic_fetch_add(&lane->n_links, 1);
        atomic_fetch_add(lane->n_all, 1);
}

static void discount(struct lane *lane)
{
        atomic_fetch_sub(&lane->n_links, 1);
        atomic_fetch_sub(lane->n_all, 1);
}

static void link_free(struct lane *lane, struct link *link)
{
        drop_fds(link);
        /* The closer may need long, and nothing is to be told of it meanwhile. */
        (void)epoll_ctl(lane->set_fd, EPOLL_CTL_DEL, link->client.fd, NULL);
        fd_closer_take_socket(lane->closer, link->client.fd);
        closep(&link->loop.fd);
        free(link);
        discount(lane);
}

/* Not before all events of a look are served: a link may have two. */
static void free_over(struct lane *lane, struct link_list *over)
{
        while (!LIST_EMPTY(over)) {
                struct link *link = LIST_FIRST(over);

                LIST_REMOVE(link, link);
                link_free(lane, link);
        }
}

static void serve_side(struct lane *lane, struct side *side, uint32_t events,
                       struct link_list *over)
{
        struct link *link = side->link;

        if (link->is_over)
                return;
        side->armed = 0;
        side->has_hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        serve(lane, link);
        if (!link->is_over)
                return;
        pthread_mutex_lock(&lane->lock);
        LIST_REMOVE(link, link);
        pthread_mutex_unlock(&lane->lock);
        LIST_INSERT_HEAD(over, link, link);
}

static void close_files(struct lane *lane)
{
        struct closing_list closings;
        uint64_t since_ns;

        pthread_mutex_lock(&lane->lock);
        closings = lane->closings;
        SLIST_INIT(&lane->closings);
        pthread_mutex_unlock(&lane->lock);
        while (!SLIST_EMPTY(&closings)) {
                struct closing *closing = SLIST_FIRST(&closings);

                SLIST_REMOVE_HEAD(&closings, link);
                since_ns = clock_thread_cpu_ns();
                closep(&closing->fd);
                note_call(lane, since_ns);
                free(closing);
                discount(lane);
        }
}

static void take_wake(struct lane *lane)
{
        eventfd_t n;

        (void)eventfd_read(lane->wake_fd, &n);
        close_files(lane);
}

static void look(struct lane *lane)
{
        struct epoll_event events[EVENTS_A_LOOK];
        struct link_list over = LIST_HEAD_INITIALIZER(over);
        int n = epoll_wait(lane->set_fd, events, EVENTS_A_LOOK, -1);

        for (int i = 0; i < n; i++) {
                if (events[i].data.ptr)
                        serve_side(lane, events[i].data.ptr, events[i].events, &over);
                else
                        take_wake(lane);
        }
        free_over(lane, &over);
}

static void *run(void *argument)
{
        struct lane *lane = argument;
        struct link *link;

        thread_name_self("gpumemd-lane");
        thread_be_patient();
        while (!atomic_load(&lane->is_ending))
                look(lane);
        close_files(lane);
        LIST_FOREACH (link, &lane->links, link)
                finish(lane, link);
        free_over(lane, &lane->links);
        return NULL;
}

static int watch(struct lane *lane, int fd, uint32_t events, struct side *side)
{
        struct epoll_event event = {.events = events, .data.ptr = side};

        return epoll_ctl(lane->set_fd, EPOLL_CTL_ADD, fd, &event) ? err_errno() : 0;
}

static int open_set(struct lane *lane)
{
        lane->set_fd = epoll_create1(EPOLL_CLOEXEC);
        if (lane->set_fd < 0)
                return err_errno();
        lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lane->wake_fd < 0)
                return err_errno();
        return watch(lane, lane->wake_fd, EPOLLIN, NULL);
}

static void lane_deinit(struct lane *lane)
{
        closep(&lane->set_fd);
        closep(&lane->wake_fd);
        pthread_mutex_destroy(&lane->lock);
        free(lane);
}

int lane_new(struct fd_closer *closer, atomic_uint *n_all, struct lane **ret_lane)
{
        struct lane *lane = calloc(1, sizeof(*lane));
        int r;

        if (!lane)
                return -ENOMEM;
        lane->set_fd = lane->wake_fd = -1;
        lane->closer = closer;
        lane->n_all = n_all;
        LIST_INIT(&lane->links);
        SLIST_INIT(&lane->closings);
        pthread_mutex_init(&lane->lock, NULL);
        r = open_set(lane);
        if (!r)
                r = thread_start(run, lane, &lane->thread);
        if (r)
                lane_deinit(lane);
        else
                *ret_lane = lane;
        return r;
}

void lane_stop(struct lane *lane)
{
        atomic_store(&lane->is_ending, true);
        (void)eventfd_write(lane->wake_fd, 1);
}

struct lane *lane_free(struct lane *lane, uint64_t until_ns)
{
        uint64_t now_ns = clock_now_ns();

        if (!lane)
                return NULL;
        lane_stop(lane);
        if (!thread_join_within(lane->thread, until_ns > now_ns ? until_ns - now_ns : 0))
                abandoned_threads_add(lane->thread,
                                      "the kernel takes long for a user's sockets or pidfds; what "
                                      "its clients were not sent yet is lost");
        else
                lane_deinit(lane);
        return NULL;
}

/* The client's socket comes last: once it is watched the thread may serve the link. */
static int watch_link(struct lane *lane, struct link *link, int loop_fd, int client_fd)
{
        int r = watch(lane, loop_fd, link->loop.armed | (uint32_t)EPOLLONESHOT, &link->loop);

        return r ? r
                 : watch(lane, client_fd, link->client.armed | (uint32_t)EPOLLONESHOT,
                         &link->client);
}

static void unlist(struct lane *lane, struct link *link)
{
        pthread_mutex_lock(&lane->lock);
        LIST_REMOVE(link, link);
        pthread_mutex_unlock(&lane->lock);
        free(link);
}

static struct link *link_new(struct lane *lane, int loop_fd, int client_fd)
{
        struct link *link = calloc(1, sizeof(*link));

        if (!link)
                return NULL;
        link->client = (struct side){.link = link, .fd = client_fd, .armed = EPOLLIN};
        link->loop = (struct side){.link = link, .fd = loop_fd, .armed = EPOLLIN | EPOLLRDHUP};
        pthread_mutex_lock(&lane->lock);
        LIST_INSERT_HEAD(&lane->links, link, link);
        pthread_mutex_unlock(&lane->lock);
        return link;
}

/* Takes the loop's side of a link, and borrows the client's socket. */
static int add_link(struct lane *lane, int take_loop_fd, int client_fd)
{
        CLEANUP(closep)
        int loop_fd = take_loop_fd;
        CLEANUP(closep)
        int own_fd = fcntl(client_fd, F_DUPFD_CLOEXEC, 0);
        struct link *link;
        int r;

        if (own_fd < 0)
                return err_errno();
        link = link_new(lane, loop_fd, own_fd);
        if (!link)
                return -ENOMEM;
        r = watch_link(lane, link, loop_fd, own_fd);
        if (r) {
                unlist(lane, link);
                return r;
        }
        loop_fd = own_fd = -1;
        return 0;
}

int lane_take(struct lane *lane, int client_fd, int *ret_fd)
{
        int pair[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
                return err_errno();
        count(lane);
        r = add_link(lane, pair[0], client_fd);
        if (r) {
                discount(lane);
                closep(&pair[1]);
                return r;
        }
        set_room(client_fd, ROOM_LEAST);
        *ret_fd = pair[1];
        return 0;
}

int lane_close(struct lane *lane, int take_fd)
{
        struct closing *closing = malloc(sizeof(*closing));

        if (!closing)
                return -ENOMEM;
        closing->fd = take_fd;
        count(lane);
        pthread_mutex_lock(&lane->lock);
        SLIST_INSERT_HEAD(&lane->closings, closing, link);
        pthread_mutex_unlock(&lane->lock);
        (void)eventfd_write(lane->wake_fd, 1);
        return 0;
}

unsigned lane_n_links(const struct lane *lane)
{
        return atomic_load(&lane->n_links);
}

uint64_t lane_slow_ns(const struct lane *lane)
{
        return atomic_load(&lane->slow_ns);
}
