/* SPDX-License-Identifier: Apache-2.0 */
/* Clients in forked processes, in a process that becomes another program, and after the daemon's end. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client/api/client.h"
#include "client/connection/reconnect.h"
#include "tests/live/support/world.h"
#include "tests/live/worlds/program.h"

static const struct test_case bare = {"bare", .limit_s = 60, .start = gpumemd_start,
                                      .stop = gpumemd_stop_empty};
static const struct test_case lost = {"lost", .limit_s = 60, .start = program_start};

TEST(a_forked_child_has_no_client)
{
        struct gpumem_request request = pinned(4096);
        unsigned char *pointer = must_alloc(&request);
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
        child_await(pid, 0);
        pointer[0] = 1;
        must_free(&request, pointer);
}

/* Memory stays valid and can be freed without a daemon; new blocks are refused. */
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

static atomic_uint n_told[GPUMEM_EVENT_DEVICE_BACK + 1];

static void note_event(const struct gpumem_event *event, void *argument)
{
        (void)argument;
        atomic_fetch_add(&n_told[event->kind], 1);
}

static bool is_connected(void)
{
        struct connection *connection = reconnect_present(client_reconnector(client));
        bool is = connection;

        connection_unref(connection);
        return is;
}

/* A call that needs no daemon tells events. */
static bool is_told_of_its_end(const struct gpumem_request *request)
{
        must_free(request, must_alloc(request));
        return atomic_load(&n_told[GPUMEM_EVENT_DAEMON_LOST]) == 1;
}

/* The service thread does, and no longer waits for a socket that is readable for ever. */
TEST(an_idle_program_hears_that_its_daemon_has_gone, .in = &lost)
{
        struct gpumem_request request = on_device(0, 4096);
        unsigned char *held = must_alloc(&request);

        ck_assert_int_eq(gpumem_set_event_callback(client, note_event, NULL), 0);
        daemon_kill(&gpumemd);
        AWAIT(!is_connected());
        AWAIT(is_told_of_its_end(&request));
        must_free(&request, held);
        gpumem_disconnect(client);
        daemon_clear(&gpumemd);
}

static void *connect_again_and_again(void *argument)
{
        while (!atomic_load((atomic_bool *)argument)) {
                struct gpumem_client *each;

                ck_assert_int_eq(gpumem_connect(NULL, &each), 0);
                gpumem_disconnect(each);
        }
        return NULL;
}

static bool holds_a_connection(void)
{
        for (int fd = 0; fd < 256; fd++) {
                if (is_connection(fd))
                        return true;
        }
        return false;
}

/* At every moment of a connection's life. */
TEST(no_forked_child_holds_a_connection, .in = &bare)
{
        atomic_bool over = false;
        pthread_t thread;

        ck_assert_int_eq(pthread_create(&thread, NULL, connect_again_and_again, &over), 0);
        for (unsigned i = 0; i < 300; i++) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(holds_a_connection());
                child_await(pid, 0);
        }
        atomic_store(&over, true);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* 4 MiB of each kind. */
static bool hold_something(void)
{
        struct gpumem_request device = request_in(gpu_stream(use_gpu()), GPUMEM_DEVICE, 4 * MIB),
                              host = device;
        struct gpumem_client *own = connect_client();
        void *pointer;

        host.kind = GPUMEM_PINNED;
        return gpumem_alloc(own, &device, &pointer) == 0 && gpumem_alloc(own, &host, &pointer) == 0;
}

struct other {
        pid_t pid;
        int end; /* it ends when this is closed */
};

/* A process that becomes cat, with a client or without. */
static struct other start_other(bool (*first)(void))
{
        int end[2];
        pid_t pid;

        ck_assert_int_eq(pipe2(end, O_CLOEXEC), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
                if (dup2(end[0], STDIN_FILENO) == STDIN_FILENO && (!first || first()))
                        (void)execlp("cat", "cat", (char *)NULL);
                _exit(1);
        }
        (void)close(end[0]);
        return (struct other){pid, end[1]};
}

static bool is_cat(pid_t pid)
{
        char path[64], name[16] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        (void)!fgets(name, sizeof(name), file);
        (void)fclose(file);
        return strcmp(name, "cat\n") == 0;
}

/* The fds that the new program has inherited. */
static unsigned count_left(const struct other *other)
{
        struct daemon process = {.pid = other->pid};

        AWAIT(is_cat(other->pid));
        ck_assert(is_cat(other->pid));
        return daemon_quiet_fds(&process);
}

static void end_other(const struct other *other)
{
        (void)close(other->end);
        child_await(other->pid, 0);
}

/* The daemon cannot see that the exec has ended the mappings. */
TEST(what_an_exec_leaves_is_charged_until_the_process_ends, .in = &bare)
{
        struct other plain = start_other(NULL), holder = start_other(hold_something);
        unsigned n_plain = count_left(&plain);

        daemon_await(FIGURE_lingering, 8 * MIB);
        ck_assert_uint_eq(count_left(&holder), n_plain);
        ck_assert_uint_eq(daemon_figure(FIGURE_charged), 8 * MIB);
        ck_assert_uint_eq(daemon_figure(FIGURE_leased), 0);
        end_other(&holder);
        daemon_await(FIGURE_charged, 0);
        end_other(&plain);
}

TESTS_MAIN("served", .limit_s = 60, .start = program_start, .stop = program_stop)
