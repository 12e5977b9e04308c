/* SPDX-License-Identifier: Apache-2.0 */
/* Boards whose pages are taken away. A process does so at the lowest priority, behind another that keeps its CPU: a daemon that
 * looked at such a page, or unmapped the board, would wait for the hole. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/memfd.h"
#include "base/size.h"
#include "proto/frame_socket.h"
#include "tests/attack/askers.h"
#include "tests/attack/works.h"
#include "tests/flood/peer.h"

#define LEAVERS_MAX      16
#define HOLES_A_BOARD    100
#define MAPPINGS_A_BOARD 100
#define PAUSE_US         1000
#define PAGE             4096

static struct askers askers;

/* Says HELLO, and keeps the board. -1: there is none. */
static int take_board(int fd)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        struct frame hello = FRAME_NULL, reply;

        hello.hello = (struct message_hello){
                .magic = PROTO_MAGIC, .version = PROTO_VERSION, .features = PROTO_FEATURE_BOARD};
        if (peer_send(fd, &hello, MESSAGE_HELLO) ||
            frame_socket_receive(fd, FROM_DAEMON, &reply, &fds, &reason) ||
            reply.kind != MESSAGE_WELCOME)
                return -1;
        return fcntl(fds.fds[0], F_DUPFD_CLOEXEC, 0);
}

static void take_pages(int board)
{
        struct stat st;

        if (fstat(board, &st) == 0)
                (void)fallocate(board, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, st.st_size);
}

static void keep(int board)
{
        struct stat st;
        void *bytes;

        if (fstat(board, &st) < 0 || memfd_map_shared(board, (size_t)st.st_size, &bytes))
                return;
        if (memfd_make_pages(board, bytes, (size_t)st.st_size) == 0)
                (void)memfd_keep_pages(board);
}

/* From now on the calling thread shares one CPU with a process that never sleeps. Gangs end with their starter, and so does it. */
static void fall_behind(const struct gang_member *self)
{
        const struct sched_param none = {.sched_priority = 0};
        int n_cpus = get_nprocs();
        pid_t starter = getpid();
        cpu_set_t cpu;

        CPU_ZERO(&cpu);
        CPU_SET(self->index % (unsigned)n_cpus, &cpu);
        (void)sched_setaffinity(0, sizeof(cpu), &cpu);
        if (fork() == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                while (getppid() == starter) {
                }
                _exit(0);
        }
        (void)sched_setscheduler(0, SCHED_IDLE, &none);
}

static void take_pages_away(struct gang_member *self)
{
        int boards[ASKERS_MAX];

        askers = (struct askers){.member = self, .n = self->rule->amount};
        for (unsigned i = 0; i < askers.n; i++) {
                struct frame lease = FRAME_NULL, reply;

                askers.each[i].fd = peer_connect();
                boards[i] = take_board(askers.each[i].fd);
                take_pages(boards[i]);
                if (i % 2)
                        keep(boards[i]);
                lease.lease.n_bytes = 2 * MIB;
                (void)asker_call(&askers, &askers.each[i], &lease, MESSAGE_LEASE, &reply);
        }
        gang_is_ready(self);
        fall_behind(self);
        for (;;) {
                for (unsigned i = 0; i < askers.n; i++)
                        take_pages(boards[i]);
                gang_pass(self);
        }
}

/* Boards of connections, some of which have ended. */
static atomic_int left_behind[LEAVERS_MAX];

static void *take_pages_of_leavers(void *argument)
{
        fall_behind(argument);
        for (unsigned i = 0;; i++) {
                int board = atomic_exchange(&left_behind[i % LEAVERS_MAX], -1);

                if (board < 0)
                        continue;
                for (unsigned k = 0; k < HOLES_A_BOARD; k++)
                        take_pages(board);
                closep(&board);
        }
        return NULL;
}

/* The kernel goes through all mappings of a page that it takes away. The next board's come in the place of these. */
static void map_often(int board, char *place)
{
        for (unsigned i = 0; i < MAPPINGS_A_BOARD; i++)
                (void)mmap(place + i * (size_t)PAGE, PAGE, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_FIXED | MAP_POPULATE, board, 0);
}

/* Connects, leaves the board to a thread, and goes while that takes its pages away. */
void work_leave_holes(struct gang_member *self)
{
        const size_t n_place_bytes = MAPPINGS_A_BOARD * (size_t)PAGE;
        char *places = mmap(NULL, LEAVERS_MAX * n_place_bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_t thread;

        if (places == MAP_FAILED)
                abort();
        for (unsigned i = 0; i < LEAVERS_MAX; i++)
                atomic_init(&left_behind[i], -1);
        for (unsigned i = 0; i < self->rule->amount; i++)
                (void)pthread_create(&thread, NULL, take_pages_of_leavers, self);
        gang_is_ready(self);
        for (unsigned i = 0;; i++) {
                int fd = peer_connect(), board = take_board(fd);

                if (board >= 0) {
                        map_often(board, places + i % LEAVERS_MAX * n_place_bytes);
                        board = atomic_exchange(&left_behind[i % LEAVERS_MAX], board);
                        atomic_fetch_add(&self->n_done, 1);
                }
                closep(&board);
                (void)usleep(PAUSE_US);
                closep(&fd);
                gang_pass(self);
        }
}

/* A block that can be shared is made for its LEASE, which looks for idle ones first. */
static bool ask_new(struct askers *all, struct asker *asker)
{
        struct frame frame = FRAME_NULL;

        (void)all;
        frame.lease.n_bytes = 2 * MIB;
        frame.lease.properties = PROTO_PROPERTY_SHAREABLE;
        return asker_send(asker, &frame, MESSAGE_LEASE);
}

void work_holes(struct gang_member *self)
{
        static const struct askers_way way = {.ask = ask_new, .take = askers_give_back};

        if (self->index)
                take_pages_away(self);
        askers_connect(&askers, self, self->rule->window);
        gang_is_ready(self);
        askers_go_on(&askers, self->rule->window, &way);
}
