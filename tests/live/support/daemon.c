/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/support/daemon.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "client/connection/query.h"
#include "client/connection/rows.h"
#include "daemon/server/session/file_stock.h"
#include "gpumem.h"
#include "proto/address.h"
#include "tests/live/support/asleep.h"
#include "tests/live/support/links.h"

#define OPTIONS_MAX 16
#define POLL_MS     5
#define QUIET_MS    100
#define FDS_MAX     1024

struct daemon gpumemd;

void sleep_ms(unsigned ms)
{
        struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

        while (nanosleep(&time, &time) < 0 && errno == EINTR) {
        }
}

void child_await(pid_t pid, int status)
{
        int ended;

        ck_assert_int_eq(waitpid(pid, &ended, 0), pid);
        ck_assert_int_eq(ended, status);
}

void child_kill(pid_t pid)
{
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        child_await(pid, SIGKILL);
}

bool is_root(void)
{
        return geteuid() == 0;
}

bool machine_is_emulated(void)
{
        const char *library = getenv("GPUMEM_CUDA_LIBRARY");

        return library && strcmp(basename(library), "libcuda-emu.so") == 0;
}

unsigned machine_n_devices(void)
{
        const char *text = getenv("GPUMEM_TEST_DEVICES");

        return text && strcmp(text, "1") == 0 ? 1 : 2;
}

bool machine_has_two_devices(void)
{
        return machine_n_devices() > 1;
}

bool is_root_on_emulator(void)
{
        return is_root() && machine_is_emulated();
}

static bool leads_to(int folder, const char *name, const char *target)
{
        char found[64];
        ssize_t n = readlinkat(folder, name, found, sizeof(found) - 1);

        if (n < 0)
                return false;
        found[n] = '\0';
        return strstr(found, target);
}

/* Those that lead to a file of that name; "": all. */
static unsigned count_entries(const char *path, const char *target)
{
        DIR *folder = opendir(path);
        const struct dirent *entry;
        unsigned n = 0;

        ck_assert_ptr_nonnull(folder);
        while ((entry = readdir(folder)))
                n += !*target || leads_to(dirfd(folder), entry->d_name, target);
        (void)closedir(folder);
        return n;
}

unsigned own_fds(void)
{
        return count_entries("/proc/self/fd", "");
}

static unsigned count_in_stock(const char *path, const char *target)
{
        unsigned n = count_entries(path, target);

        return n < FILE_STOCK_MAX ? n : FILE_STOCK_MAX;
}

unsigned daemon_count_boards(const struct daemon *daemon)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon->pid);
        return count_entries(path, "memfd:gpumem-board");
}

unsigned daemon_count_files(const struct daemon *daemon)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon->pid);
        return count_entries(path, "");
}

unsigned daemon_count_fds(const struct daemon *daemon)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon->pid);
        return count_entries(path, "") - daemon_count_boards(daemon) -
               count_in_stock(path, "memfd:gpumem-rows");
}

unsigned daemon_quiet_fds(const struct daemon *daemon)
{
        unsigned n = daemon_count_fds(daemon);

        for (unsigned ms = 0, quiet_ms = 0; ms < AWAIT_MS && quiet_ms < QUIET_MS; ms += POLL_MS) {
                bool sleeps = process_sleeps(daemon->pid);
                unsigned now = daemon_count_fds(daemon);

                if (now != n)
                        quiet_ms = 0;
                else if (sleeps)
                        quiet_ms += POLL_MS;
                n = now;
                sleep_ms(POLL_MS);
        }
        return n;
}

/* Two of these choose the driver; others are settings for tests. */
static bool is_for_tests(const char *setting)
{
        static const char *const kept[] = {
                "GPUMEM_CUDA_LIBRARY=", "GPUMEM_NVML_LIBRARY=", "GPUMEM_EMULATOR=", "GPUMEM_TEST_"};

        for (unsigned i = 0; i < ARRAY_SIZE(kept); i++) {
                if (strncmp(setting, kept[i], strlen(kept[i])) == 0)
                        return true;
        }
        return false;
}

/* A user's own settings must not influence a test. */
static void forget_settings(void)
{
        char name[64];

        for (char **setting = environ; *setting;) {
                size_t length = strcspn(*setting, "=");

                if (strncmp(*setting, "GPUMEM_", strlen("GPUMEM_")) != 0 ||
                    is_for_tests(*setting) || length >= sizeof(name)) {
                        setting++;
                        continue;
                }
                memcpy(name, *setting, length);
                name[length] = '\0';
                ck_assert_int_eq(unsetenv(name), 0);
                setting = environ;
        }
}

/* Replaces the machine's own configuration, which is unknown. */
static void write_configuration(const struct daemon *daemon, const char *text)
{
        char path[256];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/gpumemd.conf", daemon->place);
        file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

/* In shared memory if possible, to spare the disk. */
static void make_place(struct daemon *daemon, const char *configuration)
{
        const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

        (void)snprintf(daemon->place, sizeof(daemon->place), "%s/gpumem-test-XXXXXX", folder);
        ck_assert_ptr_nonnull(mkdtemp(daemon->place));
        (void)snprintf(daemon->socket, sizeof(daemon->socket), "%s/gpumemd.sock", daemon->place);
        write_configuration(daemon, configuration);
}

/* Not by fork: a child of a process with threads may find a lock taken for ever. `setting` is a variable
 * for its environment, or NULL. */
static void run_daemon(struct daemon *daemon, const char *setting, const char *const *options)
{
        const char *program = getenv("GPUMEM_TEST_DAEMON");
        char configuration[256];
        char *arguments[OPTIONS_MAX + 10] = {
                (char *)"env",   (char *)setting,    (char *)program,
                (char *)"--log", (char *)"error",    (char *)"--canary",
                (char *)"off",   (char *)"--config", configuration};
        char **first = setting ? arguments : arguments + 2;

        (void)snprintf(configuration, sizeof(configuration), "%s/gpumemd.conf", daemon->place);
        for (unsigned i = 0; options && options[i] && i < OPTIONS_MAX; i++)
                arguments[9 + i] = (char *)options[i];
        ck_assert_int_eq(posix_spawnp(&daemon->pid, *first, NULL, NULL, first, environ), 0);
}

static void await_socket(const struct daemon *daemon)
{
        for (unsigned ms = 0; ms < AWAIT_MS; ms += POLL_MS) {
                struct fdset fds = FDSET_NULL;
                struct message_welcome welcome;
                struct link *link;

                ck_assert_int_eq(waitpid(daemon->pid, NULL, WNOHANG), 0);
                if (link_open(NULL, &(struct link_hello){.program = "waiting"}, &link, &welcome,
                              &fds) == 0) {
                        fdset_deinit(&fds);
                        link_free(link);
                        return;
                }
                sleep_ms(POLL_MS);
        }
        ck_abort_msg("gpumemd does not serve");
}

void daemon_launch(struct daemon *daemon, const char *emulator, const char *const *options,
                   const char *configuration)
{
        char setting[256];

        ck_assert_ptr_nonnull(getenv("GPUMEM_TEST_DAEMON"));
        forget_settings();
        make_place(daemon, configuration);
        (void)snprintf(setting, sizeof(setting), "%s,dir=%s/devices", emulator, daemon->place);
        if (machine_is_emulated())
                ck_assert_int_eq(setenv("GPUMEM_EMULATOR", setting, 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", daemon->socket, 1), 0);
        /* Freed memory goes back at once, so that statistics are predictable; test_cache.c tests the
         * default. */
        ck_assert_int_eq(setenv("GPUMEM_CACHE_SIZE", "0", 0), 0);
        run_daemon(daemon, NULL, options);
}

void daemon_start_configured(struct daemon *daemon, const char *emulator,
                             const char *const *options, const char *configuration)
{
        daemon_launch(daemon, emulator, options, configuration);
        await_socket(daemon);
}

void daemon_start(struct daemon *daemon, const char *emulator, const char *const *options)
{
        daemon_start_configured(daemon, emulator, options, "{}\n");
}

void daemon_restart(struct daemon *daemon, const char *visible, const char *const *options)
{
        char setting[64];

        (void)snprintf(setting, sizeof(setting), "CUDA_VISIBLE_DEVICES=%s", visible ? visible : "");
        run_daemon(daemon, visible ? setting : NULL, options);
        await_socket(daemon);
}

void daemon_configure(struct daemon *daemon, const char *configuration)
{
        write_configuration(daemon, configuration);
        ck_assert_int_eq(kill(daemon->pid, SIGHUP), 0);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
        (void)st;
        (void)kind;
        (void)walk;
        return remove(path);
}

void daemon_clear(struct daemon *daemon)
{
        (void)nftw(daemon->place, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void daemon_stop(struct daemon *daemon)
{
        int status = -1;

        ck_assert_int_eq(kill(daemon->pid, SIGTERM), 0);
        ck_assert_int_eq(waitpid(daemon->pid, &status, 0), daemon->pid);
        daemon_clear(daemon);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "gpumemd ended with %#x",
                      (unsigned)status);
}

void daemon_expect_empty(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_free_all();
        daemon_await(FIGURE_reserved, 0);
}

bool is_connection(int fd)
{
        struct sockaddr_un peer = {.sun_family = AF_UNSPEC};
        socklen_t n_bytes = sizeof(peer);

        return getpeername(fd, (struct sockaddr *)&peer, &n_bytes) == 0 &&
               peer.sun_family == AF_UNIX && strcmp(peer.sun_path, gpumemd.socket) == 0;
}

void hang_up(void)
{
        for (int fd = 0; fd < FDS_MAX; fd++) {
                if (is_connection(fd))
                        (void)close(fd);
        }
}

void daemon_note_fds(struct daemon *daemon)
{
        daemon->n_fds = daemon_quiet_fds(daemon);
}

void daemon_stop_empty(struct daemon *daemon)
{
        hang_up();
        daemon_expect_empty();
        if (daemon->n_fds)
                ck_assert_uint_eq(daemon_quiet_fds(daemon), daemon->n_fds);
        daemon_stop(daemon);
}

void gpumemd_start(void)
{
        daemon_start(&gpumemd, "devices=1,bytes=256MiB", NULL);
        daemon_note_fds(&gpumemd);
}

void gpumemd_stop(void)
{
        daemon_stop(&gpumemd);
}

void gpumemd_stop_uncharged(void)
{
        daemon_await(FIGURE_charged, 0);
        daemon_stop(&gpumemd);
}

void gpumemd_stop_empty(void)
{
        daemon_stop_empty(&gpumemd);
}

void daemon_admit_all(const struct daemon *daemon)
{
        ck_assert_int_eq(chmod(daemon->place, 0711), 0);
        ck_assert_int_eq(chmod(daemon->socket, 0666), 0);
}

void daemon_kill(struct daemon *daemon)
{
        child_kill(daemon->pid);
}

void daemon_suspend(const struct daemon *daemon)
{
        int status;

        ck_assert_int_eq(kill(daemon->pid, SIGSTOP), 0);
        ck_assert_int_eq(waitpid(daemon->pid, &status, WUNTRACED), daemon->pid);
        ck_assert(WIFSTOPPED(status));
}

void daemon_resume(const struct daemon *daemon)
{
        ck_assert_int_eq(kill(daemon->pid, SIGCONT), 0);
}

/* Replaces the file by a rename. */
static void tell_machine(const struct daemon *daemon, const char *name, const char *text)
{
        char path[256], new_path[256];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/devices/%s", daemon->place, name);
        (void)snprintf(new_path, sizeof(new_path), "%s/devices/%s.new", daemon->place, name);
        file = fopen(new_path, "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(rename(new_path, path), 0);
}

void daemon_fault(const struct daemon *daemon, pid_t pid, const char *faults)
{
        char text[512];

        ck_assert_int_lt(snprintf(text, sizeof(text), "pid=%d\n%s\n", (int)pid, faults),
                         (int)sizeof(text));
        tell_machine(daemon, "faults", text);
}

void daemon_nvml(const struct daemon *daemon, const char *lines)
{
        tell_machine(daemon, "nvml", lines);
}

static const size_t figure_offsets[] = {
#define STAT(field, unit, text) offsetof(struct stats_row, field),
#include "proto/stats.def"
#undef STAT
};

static uint64_t sum_figure(enum figure figure, uint32_t n_pools)
{
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        struct link *link = open_link("figures", NULL);
        uint64_t sum = 0;
        void *rows;

        ck_assert_int_eq(
                link_call(link, &request, MESSAGE_STATS, MESSAGE_STATS_REPLY, &reply, &fds), 0);
        ck_assert_int_eq(rows_read(fds.fds[0], reply.stats_reply.n_rows,
                                   reply.stats_reply.n_row_bytes, sizeof(struct stats_row), &rows),
                         0);
        for (uint32_t i = 0; i < reply.stats_reply.n_rows && i < n_pools; i++) {
                const char *row = (const char *)rows + i * sizeof(struct stats_row);
                uint64_t value;

                memcpy(&value, row + figure_offsets[figure], sizeof(value));
                sum += value;
        }
        free(rows);
        fdset_deinit(&fds);
        link_free(link);
        return sum;
}

uint64_t daemon_figure(enum figure figure)
{
        return sum_figure(figure, UINT32_MAX);
}

uint64_t daemon_first_figure(enum figure figure)
{
        return sum_figure(figure, 1);
}

struct message_loop_is daemon_loop(void)
{
        struct link *link = open_link("loop", NULL);
        struct message_loop_is loop;

        ck_assert_int_eq(query_loop(link, &loop), 0);
        link_free(link);
        return loop;
}

uint64_t daemon_device_bytes(void)
{
        struct fdset fds = FDSET_NULL;
        struct message_welcome welcome;
        const struct pool_row *pool;
        struct link *link;
        uint64_t n_bytes;
        void *rows;

        ck_assert_int_eq(
                link_open(NULL, &(struct link_hello){.program = "capacity"}, &link, &welcome, &fds),
                0);
        ck_assert_int_eq(
                rows_read(fds.fds[1], welcome.n_pools, welcome.n_row_bytes, sizeof(*pool), &rows),
                0);
        pool = rows;
        n_bytes = pool->n_capacity_bytes;
        free(rows);
        fdset_deinit(&fds);
        link_free(link);
        return n_bytes;
}

const char *daemon_admin_socket(void)
{
        static struct sockaddr_un admin;
        struct sockaddr_un client;

        ck_assert_int_eq(address_to_connect(NULL, &client), 0);
        ck_assert_int_eq(address_of_admin(&client, &admin), 0);
        return admin.sun_path;
}

/* The admin socket is served before others: what this process has sent before is taken first. */
void daemon_free_all(void)
{
        struct link *link;

        (void)daemon_figure(FIGURE_reserved);
        link = open_admin_link("free-all");
        ck_assert_int_eq(free_all_over(link, PROTO_SCOPE_NODE, PROTO_ALL_POOLS, NULL), 0);
        link_free(link);
}

void daemon_await(enum figure figure, uint64_t value)
{
        uint64_t last = 0;

        for (unsigned ms = 0; ms < AWAIT_MS; ms += POLL_MS) {
                last = daemon_figure(figure);
                if (last == value)
                        return;
                sleep_ms(POLL_MS);
        }
        ck_abort_msg("a figure is %" PRIu64 ", not %" PRIu64, last, value);
}

void daemon_await_first(enum figure figure, uint64_t low, uint64_t high)
{
        uint64_t last = 0;

        for (unsigned ms = 0; ms < AWAIT_MS; ms += POLL_MS) {
                last = daemon_first_figure(figure);
                if (last >= low && last <= high)
                        return;
                sleep_ms(POLL_MS);
        }
        ck_abort_msg("a figure is %" PRIu64 ", not %" PRIu64 " to %" PRIu64, last, low, high);
}
