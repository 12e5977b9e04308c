/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemd: reads its options, loads the driver, serves. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/log.h"
#include "base/log_thread.h"
#include "base/thread.h"
#include "daemon/activation.h"
#include "daemon/backing/device/canary.h"
#include "daemon/backing/worker/abandoned_threads.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/server/core/fd_limits.h"
#include "daemon/server/server.h"
#include "driver/nvml.h"

enum exit_status { EXIT_USAGE = 2, EXIT_NO_DRIVER = 3 };

/* systemd names the journal's stream in $JOURNAL_STREAM. The journal adds the time to each line itself. */
static bool stderr_is_journal(void)
{
        const char *text = secure_getenv("JOURNAL_STREAM");
        uintmax_t device, inode;
        struct stat status;

        return text && sscanf(text, "%ju:%ju", &device, &inode) == 2 &&
               fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device &&
               status.st_ino == inode;
}

/* Called before there is a pool, and so before a client is served. */
static void try_canaries(const struct start *start, const struct cuda *cuda,
                         enum canary_outcome *canaries)
{
        int n_devices;

        if (device_count(cuda, &n_devices) == 0)
                canary_run(cuda_library_name(start->options.cuda_library), n_devices, canaries);
}

static void on_ready(void)
{
        notify_ready("serving");
}

/* Absolute: others that name the file have other folders. NULL: out of memory, or there is no folder. */
static char *configuration_path(const struct options *options)
{
        CLEANUP(freep)
        char *folder = NULL;
        char *path;

        if (*options->config_path == '/')
                return strdup(options->config_path);
        folder = getcwd(NULL, 0);
        if (!folder || asprintf(&path, "%s/%s", folder, options->config_path) < 0)
                return NULL;
        return path;
}

/* Any call may lack something. Other faults are told where they are met. */
static void tell_shortage(int r)
{
        if (r == -EMFILE)
                log_error("cannot start: %s; raise LimitNOFILE or ulimit -n", strerror(-r));
        if (r == -ENFILE || r == -ENOMEM || r == -ENOSPC)
                log_error("cannot start: %s", strerror(-r));
}

static int serve(struct start *start, const struct cuda *cuda, const struct server_sockets *sockets)
{
        enum canary_outcome canaries[CANARY_DEVICES_MAX] = {CANARY_NOT_RUN};
        CLEANUP(freep)
        char *path = configuration_path(&start->options);
        char nvml_room[NVML_LIBRARY_MAX];
        struct server_options server_options = {
                .socket_path = start->options.socket_path,
                .group = start->options.group,
                .sockets = sockets,
                .cuda = cuda,
                .canaries = canaries,
                .nvml_library = nvml_library_name(start->options.nvml_library,
                                                  cuda_library_name(start->options.cuda_library),
                                                  nvml_room),
                .configuration_path = path,
                .settings = &start->config.settings,
                .on_hangup = start_reload,
                .hangup_argument = start,
                .on_alive = notify_alive,
                .alive_ms = notify_alive_ms(),
                .on_stop = notify_stopping,
                .on_ready = on_ready,
                .on_status = notify_status,
        };
        struct server *server;
        int r;

        if (start->options.canary != CANARY_OFF) {
                server_options.canary_library = cuda_library_name(start->options.cuda_library);
                try_canaries(start, cuda, canaries);
        }
        r = server_new(&server_options, &server);
        if (r) {
                tell_shortage(r);
                return EXIT_FAILURE;
        }
        r = server_run(server);
        server_free(server);
        /* The driver registers handlers for the process's end. They would wait for the call that hangs. */
        if (abandoned_threads_any()) {
                log_thread_stop();
                _exit(r ? EXIT_FAILURE : EXIT_SUCCESS);
        }
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run(struct start *start)
{
        struct server_sockets sockets = SERVER_SOCKETS_NULL;
        char reason[CUDA_REASON_MAX], fault[ACTIVATION_FAULT_MAX];
        struct cuda cuda;

        log_setup("gpumemd", start->options.log_level);
        if (!stderr_is_journal())
                log_show_time();
        if (fd_limits_raise())
                log_warning("cannot raise the limit of open files; blocks and clients are limited "
                            "by it");
        session_prefer_soon();
        if (log_thread_start())
                log_warning("no thread for the log: gpumemd waits while stderr is slow");
        if (activation_take(&sockets, fault)) {
                log_error("%s", fault);
                return EXIT_USAGE;
        }
        (void)signal(SIGPIPE, SIG_IGN);
        if (cuda_load(start->options.cuda_library, &cuda, reason)) {
                log_error("no usable CUDA driver: %s", reason);
                if (!strstr(cuda_library_name(start->options.cuda_library), "libcuda-emu"))
                        log_error("without a GPU, start gpumemd on the emulated driver: gpumemd "
                                  "--cuda-library PATH/libcuda-emu.so");
                return EXIT_NO_DRIVER;
        }
        return serve(start, &cuda, &sockets);
}

/* What was printed may not have been written. */
static int end_output(void)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return EXIT_SUCCESS;
        (void)fprintf(stderr, "gpumemd: the output could not be written: %s\n", strerror(errno));
        return EXIT_FAILURE;
}

static int check_config(const char *path)
{
        struct config config;

        log_setup("gpumemd", LOG_WARNING);
        if (config_load(path, &config_report_stderr, &config))
                return EXIT_USAGE;
        config_deinit(&config);
        (void)printf("%s: configuration is valid\n", path);
        return end_output();
}

int main(int argc, char **argv)
{
        struct options options;
        struct start start;
        int status;

        if (fds_fill_standard())
                return EXIT_FAILURE;
        switch (options_parse(argc, argv, &options)) {
        case OPTIONS_DONE:
                return end_output();
        case OPTIONS_WRONG:
                return EXIT_USAGE;
        case OPTIONS_RUN:
                break;
        }
        if (options.canary_ordinal >= 0)
                return canary_main(options.cuda_library, options.canary_ordinal);
        if (options.check_path)
                return check_config(options.check_path);
        if (start_init(&start, &options))
                return EXIT_USAGE;
        status = run(&start);
        log_thread_stop();
        start_deinit(&start);
        return status;
}
