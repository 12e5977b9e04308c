/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/flood/peer.h"

#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/frame_socket.h"

static int connect_to(const struct sockaddr_un *address)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0)
                return -1;
        return steal_fd(&fd);
}

int peer_connect(void)
{
        struct sockaddr_un address;

        return address_to_connect(NULL, &address) ? -1 : connect_to(&address);
}

int peer_connect_admin(void)
{
        struct sockaddr_un address, admin;

        if (address_to_connect(NULL, &address) || address_of_admin(&address, &admin))
                return -1;
        return connect_to(&admin);
}

int peer_send(int fd, struct frame *frame, enum message_kind kind)
{
        proto_seal(frame, kind, 1, 0);
        return frame_socket_send(fd, frame, NULL);
}

int peer_receive(int fd, struct frame *ret_frame)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;

        return frame_socket_receive(fd, FROM_DAEMON, ret_frame, &fds, &reason);
}

int peer_call(int fd, struct frame *request, enum message_kind kind, enum message_kind reply_kind,
              struct frame *ret_reply)
{
        int r = peer_send(fd, request, kind);

        do {
                if (!r)
                        r = peer_receive(fd, ret_reply);
        } while (!r && ret_reply->kind == MESSAGE_NOTICE);
        if (r)
                return r;
        if (ret_reply->kind == MESSAGE_ERROR)
                return (int)ret_reply->error.code;
        return ret_reply->kind == reply_kind ? 0 : GPUMEM_E_BAD_FRAME;
}

int peer_hello(int fd)
{
        struct frame hello = FRAME_NULL, reply;

        hello.hello = (struct message_hello){
                .magic = PROTO_MAGIC, .version = PROTO_VERSION, .features = PROTO_FEATURE_GROUPS};
        proto_put_text(hello.hello.program, sizeof(hello.hello.program), "flood");
        return peer_call(fd, &hello, MESSAGE_HELLO, MESSAGE_WELCOME, &reply);
}
