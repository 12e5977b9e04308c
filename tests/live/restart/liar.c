/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/restart/liar.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memfd.h"
#include "base/size.h"
#include "driver/device.h"
#include "driver/vmm.h"
#include "gpumem.h"
#include "proto/board.h"
#include "proto/frame_socket.h"
#include "proto/listing.h"

#define N_SLOTS   4096
#define N_POOLS   2
#define MANY_FDS  64
#define LEASE_ID  7
#define LIST_ROWS 2
#define ANSWER    0x8000

static enum lie lie;
static struct cuda cuda;

/* As it stands, with so many bytes of it and so many fds, whatever it says itself. */
static void send_raw(int socket, const void *bytes, size_t n_bytes, const int *fds, unsigned n_fds)
{
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(MANY_FDS * sizeof(int))];
        } control = {.bytes = {0}};
        struct iovec vector = {(void *)bytes, n_bytes};
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};

        if (n_fds) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
                control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                  .cmsg_type = SCM_RIGHTS,
                                                  .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
                memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(int));
        }
        (void)sendmsg(socket, &message, MSG_NOSIGNAL);
}

static void send_frame(int socket, const struct frame *frame, const int *fds, unsigned n_fds)
{
        send_raw(socket, frame, frame->n_bytes, fds, n_fds);
}

/* A pipe, a socket, a folder: in the order of the lies. */
static int wrong_fd(unsigned which)
{
        int ends[2];

        if (which == 0)
                return pipe2(ends, O_CLOEXEC) ? -1 : ends[0];
        return which == 1 ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                          : open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int unsealed(uint64_t n_bytes)
{
        int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        return fd >= 0 && ftruncate(fd, (off_t)n_bytes) == 0 ? fd : -1;
}

static int sealed(uint64_t n_bytes)
{
        int fd = -1;

        return memfd_new("sealed", n_bytes, &fd) ? -1 : fd;
}

static int board_fd(uint64_t n_bytes)
{
        if (lie >= LIE_BOARD_IS_PIPE && lie <= LIE_BOARD_IS_FOLDER)
                return wrong_fd(lie - LIE_BOARD_IS_PIPE);
        if (lie == LIE_BOARD_IS_UNSEALED)
                return unsealed(n_bytes);
        return sealed(lie == LIE_BOARD_IS_SHORT ? 4096 : n_bytes);
}

static int rows_fd(void)
{
        struct pool_row rows[N_POOLS] = {{.kind = GPUMEM_DEVICE, .name = "a device"},
                                         {.kind = GPUMEM_PINNED, .name = "a node"}};
        struct device device;
        int fd = -1;

        for (unsigned i = 0; i < N_POOLS; i++) {
                rows[i].id = lie == LIE_ROWS_HAVE_OTHER_IDS ? 0 : i;
                rows[i].n_capacity_bytes = rows[i].n_max_bytes = GIB;
                rows[i].n_granularity_bytes = 2 * MIB;
        }
        if (device_describe(&cuda, 0, &device) == 0)
                memcpy(rows[0].uuid, device.uuid, sizeof(rows[0].uuid));
        if (lie == LIE_ROWS_ARE_PIPE)
                return wrong_fd(0);
        if (lie == LIE_ROWS_ARE_UNSEALED)
                return unsealed(sizeof(rows));
        (void)memfd_new_constant("rows", rows,
                                 lie == LIE_ROWS_ARE_SHORT ? sizeof(rows[0]) : sizeof(rows), &fd);
        return fd;
}

/* The fd that belongs to an answer, perhaps a second one, and what the lies add. */
static void collect_fds(int fds[static MANY_FDS], int first, int second)
{
        for (unsigned i = 2; i < MANY_FDS; i++)
                fds[i] = STDERR_FILENO;
        fds[0] = first;
        fds[1] = second;
}

/* With as many fds as it needs, or others, and whole or not. */
static void send_with_fds(int socket, const struct frame *frame, const int *fds, unsigned n_fds)
{
        static const struct {
                enum lie lie;
                unsigned n_fds;
        } wrong[] = {
                {LIE_WELCOME_WITH_ONE_FD, 1},          {LIE_WELCOME_WITH_THREE_FDS, 3},
                {LIE_WELCOME_WITH_MANY_FDS, MANY_FDS}, {LIE_LEASED_WITHOUT_FD, 0},
                {LIE_LEASED_WITH_TWO_FDS, 2},          {LIE_LEASED_WITH_MANY_FDS, MANY_FDS},
        };
        bool is_welcome = frame->kind == MESSAGE_WELCOME;
        bool is_cut = lie == (is_welcome ? LIE_WELCOME_IS_CUT : LIE_LEASED_IS_CUT);

        for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
                if (lie == wrong[i].lie && is_welcome == (lie < LIE_BLOCK_IS_PIPE))
                        n_fds = wrong[i].n_fds;
        }
        send_raw(socket, frame, frame->n_bytes - (is_cut ? 8 : 0), fds, n_fds);
}

static void send_welcome(int socket, uint32_t serial, struct frame *frame, int *fds)
{
        struct frame other = {.pools_reply = {N_POOLS, sizeof(struct pool_row)}};

        if (lie == LIE_WELCOME_IS_ANOTHER_KIND) {
                proto_seal(&other, MESSAGE_POOLS_REPLY, serial, 1);
                send_frame(socket, &other, fds + 1, 1);
        } else if (lie == LIE_WELCOME_IS_NOISE) {
                memset(frame, 0xa5, sizeof(*frame));
                send_raw(socket, frame, sizeof(*frame), fds, 2);
        } else if (lie == LIE_WELCOME_IS_EMPTY) {
                send_raw(socket, frame, 0, fds, 2);
        } else if (lie != LIE_WELCOME_IS_AN_END) {
                frame->n_fds = lie == LIE_WELCOME_SAYS_ONE_FD ? 1 : 2;
                send_with_fds(socket, frame, fds, 2);
        }
}

static uint64_t features(void)
{
        if (lie == LIE_KNOWS_NO_FEATURES)
                return 0;
        return lie == LIE_REFUSES_IN_WORDS ? PROTO_FEATURES & ~PROTO_FEATURE_FACTS : PROTO_FEATURES;
}

static void welcome(int socket, const struct frame *hello)
{
        struct frame frame = FRAME_NULL;
        uint64_t n_bytes = board_bytes(N_POOLS, N_SLOTS);
        int fds[MANY_FDS];

        frame.welcome = (struct message_welcome){
                .version = lie == LIE_WELCOME_OF_ANOTHER_VERSION ? PROTO_VERSION + 1
                                                                 : PROTO_VERSION,
                .n_slots = N_SLOTS,
                .features = hello->hello.features & features(),
                .incarnation = 1,
                .n_board_bytes = lie == LIE_BOARD_IS_CLAIMED_SMALL ? 4096 : n_bytes,
                .n_pools = N_POOLS,
                .n_row_bytes = lie == LIE_ROWS_ARE_NARROW ? sizeof(struct pool_row) / 2
                                                          : sizeof(struct pool_row),
        };
        collect_fds(fds, board_fd(frame.welcome.n_board_bytes), rows_fd());
        proto_seal(&frame, MESSAGE_WELCOME, hello->serial, 2);
        send_welcome(socket, hello->serial, &frame, fds);
}

static int block_fd(uint32_t pool, uint64_t n_wanted_bytes)
{
        uint64_t handle, n_bytes = lie == LIE_BLOCK_IS_SMALLER ? 2 * MIB : n_wanted_bytes;
        int fd = -1;

        if (lie >= LIE_BLOCK_IS_PIPE && lie <= LIE_BLOCK_IS_FOLDER)
                return wrong_fd(lie - LIE_BLOCK_IS_PIPE);
        if (lie == LIE_BLOCK_IS_UNSEALED)
                return unsealed(n_bytes);
        if (pool == 1)
                return sealed(n_bytes);
        return vmm_create(&cuda, 0, n_bytes, &handle, &fd) ? -1 : fd;
}

static uint64_t leased_bytes(uint64_t n_bytes)
{
        if (lie == LIE_LEASE_IS_SMALLER)
                return 2 * MIB;
        if (lie == LIE_LEASE_IS_LARGER)
                return 64 * n_bytes;
        return lie == LIE_LEASE_IS_ODD ? n_bytes + 4096 : n_bytes;
}

static void send_leased(int socket, struct frame *frame, int *fds)
{
        struct frame other = {.known = {LEASE_ID, 1, frame->leased.n_bytes, 0, 0}};

        if (lie == LIE_LEASE_IS_KNOWN || lie == LIE_LEASE_IS_ANOTHER_KIND) {
                proto_seal(&other, lie == LIE_LEASE_IS_KNOWN ? MESSAGE_KNOWN : MESSAGE_PEAKS_RESET,
                           frame->serial, 0);
                send_frame(socket, &other, NULL, 0);
        } else if (lie == LIE_LEASED_IS_AN_END) {
                (void)shutdown(socket, SHUT_RDWR);
        } else {
                send_with_fds(socket, frame, fds, 1);
        }
}

static void send_notice(int socket, uint32_t what, uint64_t lease)
{
        struct frame frame = {.notice = {.what = what, .lease = lease}};

        proto_seal(&frame, MESSAGE_NOTICE, 0, 0);
        send_frame(socket, &frame, NULL, 0);
}

/* What is not asked for comes first. */
static void send_more(int socket, const struct frame *leased, const int *fds)
{
        struct frame frame = *leased;

        if (lie == LIE_ANSWER_TO_NOBODY) {
                frame.serial += 1000;
                send_frame(socket, &frame, fds, 1);
        } else if (lie == LIE_ERROR_TO_NOBODY) {
                frame.error = (struct message_error){.code = GPUMEM_E_NO_LEASE};
                proto_seal(&frame, MESSAGE_ERROR, leased->serial + 1000, 0);
                send_frame(socket, &frame, NULL, 0);
        } else if (lie == LIE_NOTICE_OF_NOTHING) {
                for (uint32_t what = PROTO_NOTICE_UNMAP; what <= PROTO_NOTICE_PRESSURE; what++)
                        send_notice(socket, what, UINT64_MAX);
        }
}

/* Until the peer has hung up. */
static void send_notices(int socket)
{
        struct pollfd end = {.fd = socket};

        for (uint32_t what = PROTO_NOTICE_UNMAP; !poll(&end, 1, 0);
             what = what == PROTO_NOTICE_PRESSURE ? PROTO_NOTICE_UNMAP : what + 1)
                send_notice(socket, what, 0);
}

/* Beside the answers. */
static void begin_notices(int socket)
{
        if (lie != LIE_NOTICES_FOR_EVER || fork())
                return;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        send_notices(socket);
        _exit(EXIT_SUCCESS);
}

/* The token says which pool; the block is as long as what is in it. */
static void attach(int socket, const struct frame *request)
{
        uint32_t pool = (uint32_t)request->attach.token_low;
        struct frame frame = FRAME_NULL;
        int fds[MANY_FDS];

        frame.attached = (struct message_attached){
                .lease = LEASE_ID,
                .block = 1,
                .n_block_bytes = leased_bytes(LIAR_SHARED_BYTES),
                .n_bytes = LIAR_SHARED_BYTES,
                .pool = pool,
        };
        proto_seal(&frame, MESSAGE_ATTACHED, request->serial, 1);
        collect_fds(fds, block_fd(pool, LIAR_SHARED_BYTES), STDERR_FILENO);
        send_leased(socket, &frame, fds);
        (void)close(fds[0]);
}

static void refuse(int socket, const struct frame *request)
{
        struct frame frame = FRAME_NULL;

        if (lie == LIE_REFUSES_IN_WORDS) {
                frame.refused = (struct message_refused){.code = GPUMEM_E_REFUSED,
                                                         .text = LIAR_REFUSES};
                proto_seal(&frame, MESSAGE_REFUSED, request->serial, 0);
        } else {
                memset(&frame.refused_facts, 0xff, offsetof(struct message_refused_facts, name));
                frame.refused_facts.code = GPUMEM_E_REFUSED;
                proto_put_text(frame.refused_facts.name, sizeof(frame.refused_facts.name),
                               LIAR_REFUSES);
                proto_seal(&frame, MESSAGE_REFUSED_FACTS, request->serial, 0);
        }
        send_frame(socket, &frame, NULL, 0);
}

static void lease(int socket, const struct frame *request)
{
        struct frame frame = FRAME_NULL;
        int fds[MANY_FDS];

        if (lie == LIE_REFUSES_ODDLY || lie == LIE_REFUSES_IN_WORDS) {
                refuse(socket, request);
                return;
        }

        frame.leased = (struct message_leased){
                .lease = LEASE_ID,
                .block = 1,
                .n_bytes = leased_bytes(request->lease.n_bytes),
                .slot = lie == LIE_LEASE_HAS_NO_SLOT ? N_SLOTS : 0,
        };
        proto_seal(&frame, MESSAGE_LEASED, request->serial, 1);
        collect_fds(fds, block_fd(request->lease.pool, request->lease.n_bytes), STDERR_FILENO);
        send_more(socket, &frame, fds);
        send_leased(socket, &frame, fds);
        if (lie == LIE_ANSWER_TWICE)
                send_frame(socket, &frame, fds, 1);
        (void)close(fds[0]);
}

static bool is_taken_back(void)
{
        static unsigned n_asked;

        return lie == LIE_LIST_IS_TAKEN_BACK ||
               (lie == LIE_LIST_IS_TAKEN_BACK_TWICE && n_asked++ % 3 < 2);
}

static int list_fd(const struct row_list *list)
{
        size_t n_bytes = LIST_ROWS * list->n_row_bytes;
        char *rows = calloc(LIST_ROWS, list->n_row_bytes);
        int fd = -1;

        if (rows && lie == LIE_LIST_HAS_ODD_BYTES)
                memset(rows, '\x1b', n_bytes);
        else if (rows && !is_taken_back())
                rows[0] = 1; /* a row of zeros only is none */
        if (lie == LIE_LIST_IS_PIPE)
                fd = wrong_fd(0);
        else if (lie == LIE_LIST_IS_UNSEALED)
                fd = unsealed(n_bytes);
        else if (rows)
                (void)memfd_new_constant("list", rows, lie == LIE_LIST_IS_SHORT ? 1 : n_bytes, &fd);
        free(rows);
        return fd;
}

/* The answers have one layout. */
static void send_list(int socket, const struct frame *request, const struct row_list *list)
{
        struct frame frame = FRAME_NULL;
        unsigned kind = request->kind;
        int fds[] = {list_fd(list), rows_fd()};

        if (lie == LIE_LIST_IS_ANOTHER_KIND)
                kind = kind == MESSAGE_CLIENTS ? MESSAGE_BLOCKS : MESSAGE_CLIENTS;
        frame.clients_reply = (struct message_clients_reply){
                .n_rows = LIST_ROWS,
                .n_row_bytes = lie == LIE_LIST_IS_NARROW ? 8 : (uint32_t)list->n_row_bytes,
                .n_pools = N_POOLS,
                .n_pool_bytes = sizeof(struct pool_row),
        };
        proto_seal(&frame, (enum message_kind)(kind | ANSWER), request->serial, 2);
        send_raw(socket, &frame, frame.n_bytes - (lie == LIE_LIST_IS_CUT ? 8 : 0), fds,
                 lie == LIE_LIST_WITH_ONE_FD ? 1 : 2);
        (void)close(fds[0]);
        (void)close(fds[1]);
}

/* One fd, where the others have two. */
static void send_events(int socket, const struct frame *request)
{
        struct frame frame = FRAME_NULL;
        bool is_another = lie == LIE_LIST_IS_ANOTHER_KIND;
        int fd = list_fd(&event_row_list);

        frame.events_reply = (struct message_events_reply){
                .n_rows = LIST_ROWS,
                .n_row_bytes = lie == LIE_LIST_IS_NARROW ? 8 : (uint32_t)event_row_list.n_row_bytes,
                .next = request->events.since + 1,
                .end = lie == LIE_EVENTS_FOR_EVER ? UINT64_MAX : request->events.since + 1,
        };
        proto_seal(&frame, is_another ? MESSAGE_STATS_REPLY : MESSAGE_EVENTS_REPLY, request->serial,
                   1);
        send_raw(socket, &frame, frame.n_bytes - (lie == LIE_LIST_IS_CUT ? 8 : 0), &fd,
                 lie == LIE_LIST_WITH_ONE_FD ? 0 : 1);
        (void)close(fd);
}

/* The frame is of serial 0, as one about the connection. */
static void turn_away(int socket)
{
        struct pollfd hello = {.fd = socket, .events = POLLIN};
        struct proto_reason reason;
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        if (lie != LIE_TURNED_AWAY_AT_ONCE)
                (void)poll(&hello, 1, -1);
        if (lie == LIE_TURNED_AWAY_READ)
                (void)frame_socket_receive(socket, FROM_CLIENT, &frame, &fds, &reason);
        frame = (struct frame){.error = {.code = GPUMEM_E_TOO_MANY}};
        proto_put_text(frame.error.text, sizeof(frame.error.text), LIAR_TURNS_AWAY);
        proto_seal(&frame, MESSAGE_ERROR, 0, 0);
        send_frame(socket, &frame, NULL, 0);
        (void)close(socket);
}

static void answer(int socket, const struct frame *request)
{
        switch (request->kind) {
        case MESSAGE_HELLO:
                welcome(socket, request);
                begin_notices(socket);
                break;
        case MESSAGE_NAMED:
                /* An older daemon does not know it. */
                if (!(features() & PROTO_FEATURE_NAMES))
                        (void)shutdown(socket, SHUT_RDWR);
                break;
        case MESSAGE_LEASE:
                if (lie == LIE_NOTICES_AND_NO_ANSWER)
                        send_notices(socket);
                else
                        lease(socket, request);
                break;
        case MESSAGE_ATTACH:
                attach(socket, request);
                break;
        case MESSAGE_CLIENTS:
                send_list(socket, request, &client_row_list);
                break;
        case MESSAGE_BLOCKS:
                send_list(socket, request, &block_row_list);
                break;
        case MESSAGE_TENANTS:
                send_list(socket, request, &tenant_row_list);
                break;
        case MESSAGE_EVENTS:
                send_events(socket, request);
                break;
        }
}

/* Until its client leaves. */
static void serve(int socket)
{
        struct proto_reason reason;
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        if (lie >= LIE_TURNED_AWAY_AT_ONCE && lie <= LIE_TURNED_AWAY_READ) {
                turn_away(socket);
                return;
        }
        while (frame_socket_receive(socket, FROM_CLIENT, &frame, &fds, &reason) == 0) {
                answer(socket, &frame);
                if (lie == LIE_WELCOME_IS_AN_END)
                        break;
        }
        (void)close(socket);
}

static void live(int listener)
{
        char reason[CUDA_REASON_MAX];
        int socket;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (cuda_load(NULL, &cuda, reason))
                _exit(EXIT_FAILURE);
        while ((socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
                serve(socket);
        _exit(EXIT_SUCCESS);
}

void liar_start(struct liar *liar, enum lie which)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        char setting[128];
        int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        lie = which;
        (void)snprintf(liar->place, sizeof(liar->place), "/dev/shm/gpumem-liar-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(liar->place));
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", liar->place);
        (void)snprintf(setting, sizeof(setting), "devices=1,bytes=1GiB,dir=%s/devices",
                       liar->place);
        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", setting, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", address.sun_path, 1), 0);
        ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
        ck_assert_int_eq(listen(listener, 8), 0);
        liar->pid = fork();
        ck_assert_int_ge(liar->pid, 0);
        if (liar->pid == 0)
                live(listener);
        (void)close(listener);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
        (void)st;
        (void)kind;
        (void)walk;
        return remove(path);
}

void liar_end(struct liar *liar)
{
        ck_assert_int_eq(kill(liar->pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(liar->pid, NULL, 0), liar->pid);
        (void)nftw(liar->place, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}
