/* gpumemd: reads its options, loads the driver, serves. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/log.h"
#include "daemon/options.h"
#include "daemon/server/server.h"

enum exit_status { EXIT_USAGE = 2, EXIT_NO_DRIVER = 3 };

/* Every block is a fd, and every client two: the usual 1024 would be a limit that nobody set. */
static void raise_fd_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit))
                return;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit))
                log_warning("the limit of open files could not be raised: blocks and clients are "
                            "limited by it");
}

static int serve(const struct options *options, const struct cuda *cuda)
{
        struct server_options server_options = {
                .socket_path = options->socket_path,
                .cuda = cuda,
                .n_device_bytes = options->n_device_bytes,
                .n_pinned_bytes = options->n_pinned_bytes,
                .pinned_backing = options->pinned_backing,
        };
        struct server *server;
        int r;

        r = server_new(&server_options, &server);
        if (r)
                return EXIT_FAILURE;
        r = server_run(server);
        server_free(server);
        return r ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
        char reason[CUDA_REASON_MAX];
        struct options options;
        struct cuda cuda;

        switch (options_parse(argc, argv, &options)) {
        case OPTIONS_DONE:
                return EXIT_SUCCESS;
        case OPTIONS_WRONG:
                return EXIT_USAGE;
        case OPTIONS_RUN:
                break;
        }
        log_setup("gpumemd", options.log_level);
        (void)signal(SIGPIPE, SIG_IGN);
        raise_fd_limit();
        if (cuda_load(options.cuda_library, &cuda, reason)) {
                log_error("no usable CUDA driver: %s", reason);
                log_error("without a GPU, start gpumemd on the emulated driver: gpumemd "
                          "--cuda-library PATH/libcuda-emu.so");
                return EXIT_NO_DRIVER;
        }
        return serve(&options, &cuda);
}
