/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that are forked, and one whose daemon is gone. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/demo/gpu.h"
#include "tests/live/program.h"
#include "tests/suite.h"

static const struct test_case lost = {"lost", .limit_s = 60, .start = program_start};

TEST(a_forked_child_has_no_client)
{
        struct gpumem_request request = pinned(4096);
        unsigned char *pointer = must_alloc(&request);
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                struct gpumem_stats stats = {.struct_size = sizeof(stats)};
                void *other;

                if (gpumem_alloc(client, &request, &other) != GPUMEM_E_FORKED ||
                    gpumem_free(client, pointer, NULL) != GPUMEM_E_FORKED ||
                    gpumem_get_stats(client, GPUMEM_PINNED, 0, &stats) != GPUMEM_E_FORKED ||
                    gpumem_free_all_blocks(client, GPUMEM_SCOPE_TENANT, NULL) != GPUMEM_E_FORKED)
                        _exit(1);
                gpumem_disconnect(client);
                _exit(0);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        pointer[0] = 1;
        must_free(&request, pointer);
}

/* A child that lives on does not hold its parent's charge: its copy of the socket is closed. */
TEST(a_forked_child_does_not_hold_the_connection)
{
        pid_t pid = fork();

        if (pid == 0) {
                (void)pause();
                _exit(0);
        }
        gpumem_disconnect(client);
        client = NULL;
        ck_assert_uint_eq(daemon_quiet_fds(&gpumemd), n_daemon_fds);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* What is held stays valid and is freed without a daemon; a new block cannot be had. */
TEST(allocations_outlive_the_daemon, .in = &lost)
{
        struct gpumem_request request = on_device(0, 4096), large = on_device(0, 16 * MIB);
        unsigned char *pointer = must_alloc(&request), *pinned_pointer;
        struct gpumem_request pinned_request = pinned(4096);
        void *other;

        pinned_pointer = must_alloc(&pinned_request);
        daemon_kill(&gpumemd);
        check_device_bytes(0, pointer, 4096);
        memset(pinned_pointer, 3, 4096);
        ck_assert_int_eq(gpumem_alloc(client, &large, &other), GPUMEM_E_DISCONNECTED);
        must_free(&request, pointer);
        must_free(&pinned_request, pinned_pointer);
        ck_assert_uint_eq(stats_of(GPUMEM_DEVICE, 0).n_reserved_bytes, 0);
        gpumem_disconnect(client);
        daemon_clear(&gpumemd);
}

TESTS_MAIN("served", .limit_s = 60, .start = program_start, .stop = program_stop)
