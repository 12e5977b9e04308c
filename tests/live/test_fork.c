/* SPDX-License-Identifier: Apache-2.0 */
/* Forks of a process that has clients, at whatever moment of a connection's life. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumem.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define N_FORKS 300

static struct daemon gpumemd;

static void start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
}

static void stop(void)
{
        daemon_stop(&gpumemd);
}

static void *connect_again_and_again(void *argument)
{
        while (!atomic_load((atomic_bool *)argument)) {
                struct gpumem_client *client;

                ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
                gpumem_disconnect(client);
        }
        return NULL;
}

/* To the daemon: a driver may have sockets of its own. */
static bool holds_a_connection(void)
{
        for (int fd = 0; fd < 256; fd++) {
                struct sockaddr_un peer = {.sun_family = AF_UNSPEC};
                socklen_t n_bytes = sizeof(peer);

                if (getpeername(fd, (struct sockaddr *)&peer, &n_bytes) == 0 &&
                    peer.sun_family == AF_UNIX && strcmp(peer.sun_path, gpumemd.socket) == 0)
                        return true;
        }
        return false;
}

TEST(no_forked_child_holds_a_connection)
{
        atomic_bool over = false;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, connect_again_and_again, &over), 0);
        for (unsigned i = 0; i < N_FORKS; i++) {
                int status;
                pid_t pid = fork();

                if (pid == 0)
                        _exit(holds_a_connection());
                ck_assert_int_eq(waitpid(pid, &status, 0), pid);
                ck_assert_int_eq(status, 0);
        }
        atomic_store(&over, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TESTS_MAIN("fork", .limit_s = 60, .start = start, .stop = stop)
