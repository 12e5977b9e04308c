/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/flood/peer.h"

#include <sys/socket.h>

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/address.h"
#include "proto/wire.h"

int peer_connect(void)
{
        CLEANUP(closep)
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct sockaddr_un address;

        if (fd < 0 || address_to_connect(NULL, &address) ||
            connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return -1;
        return steal_fd(&fd);
}

int peer_send(int fd, struct frame *frame, enum message_kind kind)
{
        proto_seal(frame, kind, 1, 0);
        return wire_send(fd, frame, NULL);
}

int peer_call(int fd, struct frame *request, enum message_kind kind, enum message_kind reply_kind,
              struct frame *ret_reply)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct proto_reason reason;
        int r = peer_send(fd, request, kind);

        if (!r)
                r = wire_receive(fd, FROM_DAEMON, ret_reply, &fds, &reason);
        if (r)
                return r;
        if (ret_reply->kind == MESSAGE_ERROR)
                return (int)ret_reply->error.code;
        return ret_reply->kind == reply_kind ? 0 : GPUMEM_E_BAD_FRAME;
}

int peer_hello(int fd)
{
        struct frame hello = FRAME_NULL, reply;

        hello.hello = (struct message_hello){.magic = PROTO_MAGIC, .version = PROTO_VERSION};
        proto_put_text(hello.hello.program, sizeof(hello.hello.program), "flood");
        return peer_call(fd, &hello, MESSAGE_HELLO, MESSAGE_WELCOME, &reply);
}
