/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/core/connect.h"

#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "proto/address.h"

/* Between tries to connect. */
#define RETRY_MS 20

/* The admin socket where this user may open it; else that of clients, over which everything is told and
 * less may be changed. */
static const char *choose_socket(const char *named, struct sockaddr_un *admin)
{
        struct sockaddr_un client;

        if (address_to_connect(named, &client) == 0 && address_of_admin(&client, admin) == 0 &&
            access(admin->sun_path, W_OK) == 0)
                return admin->sun_path;
        return named;
}

int connect_to_daemon(const struct arguments *arguments, struct link **ret_link)
{
        const struct link_hello hello = {.program = "gpumemctl",
                                         .answer_ms = arguments->timeout_s * 1000};
        const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
        uint64_t deadline_ms = clock_now_ms() + (uint64_t)arguments->wait_s * 1000;
        int r;

        for (;;) {
                CLEANUP(fdset_deinit)
                struct fdset fds = FDSET_NULL;
                struct message_welcome welcome;
                struct sockaddr_un admin;

                r = link_open(choose_socket(arguments->socket_path, &admin), &hello, ret_link,
                              &welcome, &fds);
                if (r != GPUMEM_E_DISCONNECTED || clock_now_ms() >= deadline_ms)
                        return r;
                (void)nanosleep(&pause, NULL);
        }
}
