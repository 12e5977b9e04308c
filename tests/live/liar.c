/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/liar.h"

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
#include "proto/listing.h"
#include "proto/wire.h"

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

static int a_pipe(void)
{
        int ends[2];

        return pipe2(ends, O_CLOEXEC) ? -1 : ends[0];
}

static int a_socket(void)
{
        return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int a_folder(void)
{
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
        if (lie == LIE_BOARD_IS_PIPE)
                return a_pipe();
        if (lie == LIE_BOARD_IS_SOCKET)
                return a_socket();
        if (lie == LIE_BOARD_IS_FOLDER)
                return a_folder();
        if (lie == LIE_BOARD_IS_UNSEALED)
                return unsealed(n_bytes);
        return sealed(lie == LIE_BOARD_IS_SHORT ? 4096 : n_bytes);
}

static int rows_fd(void)
{
        struct pool_row rows[N_POOLS] = {{.id = 0,
                                          .kind = GPUMEM_DEVICE,
                                          .name = "a device",
                                          .n_capacity_bytes = GIB,
                                          .n_max_bytes = GIB,
                                          .n_granularity_bytes = 2 * MIB},
                                         {.id = 1,
                                          .kind = GPUMEM_PINNED,
                                          .name = "a node",
                                          .n_capacity_bytes = GIB,
                                          .n_max_bytes = GIB,
                                          .n_granularity_bytes = 2 * MIB}};
        struct device device;
        int fd = -1;

        if (device_describe(&cuda, 0, &device) == 0)
                memcpy(rows[0].uuid, device.uuid, sizeof(rows[0].uuid));
        if (lie == LIE_ROWS_ARE_PIPE)
                return a_pipe();
        if (lie == LIE_ROWS_ARE_UNSEALED)
                return unsealed(sizeof(rows));
        if (lie == LIE_ROWS_HAVE_OTHER_IDS)
                rows[1].id = 0;
        (void)memfd_new_constant("rows", rows,
                                 lie == LIE_ROWS_ARE_SHORT ? sizeof(rows[0]) : sizeof(rows), &fd);
        return fd;
}

static void send_welcome(int socket, uint32_t serial, struct frame *frame, int *fds)
{
        struct frame other = FRAME_NULL;

        switch ((unsigned)lie) {
        case LIE_WELCOME_WITH_ONE_FD:
                send_frame(socket, frame, fds, 1);
                break;
        case LIE_WELCOME_WITH_THREE_FDS:
                send_frame(socket, frame, fds, 3);
                break;
        case LIE_WELCOME_WITH_MANY_FDS:
                send_frame(socket, frame, fds, MANY_FDS);
                break;
        case LIE_WELCOME_SAYS_ONE_FD:
                frame->n_fds = 1;
                send_frame(socket, frame, fds, 2);
                break;
        case LIE_WELCOME_IS_CUT:
                send_raw(socket, frame, frame->n_bytes - 8, fds, 2);
                break;
        case LIE_WELCOME_IS_ANOTHER_KIND:
                other.pools_reply.n_rows = N_POOLS;
                other.pools_reply.n_row_bytes = sizeof(struct pool_row);
                proto_seal(&other, MESSAGE_POOLS_REPLY, serial, 1);
                send_frame(socket, &other, fds + 1, 1);
                break;
        case LIE_WELCOME_IS_NOISE:
                memset(frame, 0xa5, sizeof(*frame));
                send_raw(socket, frame, sizeof(*frame), fds, 2);
                break;
        case LIE_WELCOME_IS_EMPTY:
                send_raw(socket, frame, 0, fds, 2);
                break;
        case LIE_WELCOME_IS_AN_END:
                break;
        default:
                send_frame(socket, frame, fds, 2);
        }
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
                .features = hello->hello.features & PROTO_FEATURES,
                .incarnation = 1,
                .n_board_bytes = lie == LIE_BOARD_IS_CLAIMED_SMALL ? 4096 : n_bytes,
                .n_pools = N_POOLS,
                .n_row_bytes = lie == LIE_ROWS_ARE_NARROW ? sizeof(struct pool_row) / 2
                                                          : sizeof(struct pool_row),
        };
        for (unsigned i = 0; i < MANY_FDS; i++)
                fds[i] = STDERR_FILENO;
        fds[0] = board_fd(frame.welcome.n_board_bytes);
        fds[1] = rows_fd();
        proto_seal(&frame, MESSAGE_WELCOME, hello->serial, 2);
        send_welcome(socket, hello->serial, &frame, fds);
}

static int block_fd(const struct message_lease *lease)
{
        uint64_t handle, n_bytes = lie == LIE_BLOCK_IS_SMALLER ? 2 * MIB : lease->n_bytes;
        int fd = -1;

        if (lie == LIE_BLOCK_IS_PIPE)
                return a_pipe();
        if (lie == LIE_BLOCK_IS_SOCKET)
                return a_socket();
        if (lie == LIE_BLOCK_IS_FOLDER)
                return a_folder();
        if (lease->pool == 1)
                return lie == LIE_BLOCK_IS_UNSEALED ? unsealed(n_bytes) : sealed(n_bytes);
        if (lie == LIE_BLOCK_IS_UNSEALED)
                return unsealed(n_bytes);
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
        struct frame other = FRAME_NULL;

        switch ((unsigned)lie) {
        case LIE_LEASE_IS_KNOWN:
                other.known = (struct message_known){LEASE_ID, 1, frame->leased.n_bytes, 0, 0};
                proto_seal(&other, MESSAGE_KNOWN, frame->serial, 0);
                send_frame(socket, &other, NULL, 0);
                break;
        case LIE_LEASE_IS_ANOTHER_KIND:
                proto_seal(&other, MESSAGE_PEAKS_RESET, frame->serial, 0);
                send_frame(socket, &other, NULL, 0);
                break;
        case LIE_LEASED_WITHOUT_FD:
                send_frame(socket, frame, NULL, 0);
                break;
        case LIE_LEASED_WITH_TWO_FDS:
                send_frame(socket, frame, fds, 2);
                break;
        case LIE_LEASED_WITH_MANY_FDS:
                send_frame(socket, frame, fds, MANY_FDS);
                break;
        case LIE_LEASED_IS_CUT:
                send_raw(socket, frame, frame->n_bytes - 8, fds, 1);
                break;
        case LIE_LEASED_IS_AN_END:
                (void)shutdown(socket, SHUT_RDWR);
                break;
        default:
                send_frame(socket, frame, fds, 1);
        }
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
                for (uint32_t what = PROTO_NOTICE_UNMAP; what <= PROTO_NOTICE_BACK; what++) {
                        frame.notice = (struct message_notice){.what = what, .lease = UINT64_MAX};
                        proto_seal(&frame, MESSAGE_NOTICE, 0, 0);
                        send_frame(socket, &frame, NULL, 0);
                }
        }
}

/* Until nobody hears it any more. */
static void send_notices(int socket)
{
        struct frame frame = FRAME_NULL;
        struct pollfd end = {.fd = socket};

        for (uint32_t what = PROTO_NOTICE_UNMAP; !poll(&end, 1, 0);
             what = what == PROTO_NOTICE_BACK ? PROTO_NOTICE_UNMAP : what + 1) {
                frame.notice = (struct message_notice){.what = what, .lease = 0};
                proto_seal(&frame, MESSAGE_NOTICE, 0, 0);
                send_frame(socket, &frame, NULL, 0);
        }
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
        struct message_lease block = {.n_bytes = LIAR_SHARED_BYTES,
                                      .pool = (uint32_t)request->attach.token_low};
        struct frame frame = FRAME_NULL;
        int fds[MANY_FDS];

        frame.attached = (struct message_attached){
                .lease = LEASE_ID,
                .block = 1,
                .n_block_bytes = leased_bytes(block.n_bytes),
                .n_bytes = LIAR_SHARED_BYTES,
                .pool = block.pool,
        };
        proto_seal(&frame, MESSAGE_ATTACHED, request->serial, 1);
        for (unsigned i = 0; i < MANY_FDS; i++)
                fds[i] = STDERR_FILENO;
        fds[0] = block_fd(&block);
        send_leased(socket, &frame, fds);
        (void)close(fds[0]);
}

static void lease(int socket, const struct frame *request)
{
        struct frame frame = FRAME_NULL;
        int fds[MANY_FDS];

        frame.leased = (struct message_leased){
                .lease = LEASE_ID,
                .block = 1,
                .n_bytes = leased_bytes(request->lease.n_bytes),
                .slot = lie == LIE_LEASE_HAS_NO_SLOT ? N_SLOTS : 0,
        };
        proto_seal(&frame, MESSAGE_LEASED, request->serial, 1);
        for (unsigned i = 0; i < MANY_FDS; i++)
                fds[i] = STDERR_FILENO;
        fds[0] = block_fd(&request->lease);
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
                fd = a_pipe();
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

static bool turns_away(void)
{
        return lie >= LIE_TURNED_AWAY_AT_ONCE && lie <= LIE_TURNED_AWAY_READ;
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
                (void)wire_receive(socket, FROM_CLIENT, &frame, &fds, &reason);
        frame = (struct frame){.kind = 0};
        frame.error.code = GPUMEM_E_TOO_MANY;
        proto_put_text(frame.error.text, sizeof(frame.error.text), LIAR_TURNS_AWAY);
        proto_seal(&frame, MESSAGE_ERROR, 0, 0);
        send_frame(socket, &frame, NULL, 0);
        (void)close(socket);
}

/* Until its client leaves. */
static void serve(int socket)
{
        struct proto_reason reason;
        struct fdset fds = FDSET_NULL;
        struct frame frame;

        if (turns_away()) {
                turn_away(socket);
                return;
        }
        while (wire_receive(socket, FROM_CLIENT, &frame, &fds, &reason) == 0) {
                if (frame.kind == MESSAGE_HELLO) {
                        welcome(socket, &frame);
                        begin_notices(socket);
                } else if (frame.kind == MESSAGE_LEASE && lie == LIE_NOTICES_AND_NO_ANSWER) {
                        send_notices(socket);
                } else if (frame.kind == MESSAGE_LEASE) {
                        lease(socket, &frame);
                } else if (frame.kind == MESSAGE_ATTACH) {
                        attach(socket, &frame);
                } else if (frame.kind == MESSAGE_CLIENTS) {
                        send_list(socket, &frame, &client_row_list);
                } else if (frame.kind == MESSAGE_BLOCKS) {
                        send_list(socket, &frame, &block_row_list);
                } else if (frame.kind == MESSAGE_TENANTS) {
                        send_list(socket, &frame, &tenant_row_list);
                } else if (frame.kind == MESSAGE_EVENTS) {
                        send_events(socket, &frame);
                }
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
