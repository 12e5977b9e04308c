/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "daemon/config/config.h"
#include "proto/address.h"

static const char help_text[] =
        "Usage: gpumemd [OPTION]...\n"
        "Owns this machine's cached GPU memory and pinned host memory, and leases blocks\n"
        "of it to programs that use libgpumem-client.\n"
        "\n"
        "  --config FILE        JSON; default: /etc/gpumemd/gpumemd.conf, if it exists;\n"
        "                       command-line options take precedence\n"
        "  --check-config FILE  only says what is wrong with it\n"
        "  --socket PATH        default: $GPUMEM_SOCKET, or gpumemd/gpumemd.sock in\n"
        "                       /run for root, in $XDG_RUNTIME_DIR for others\n"
        "  --group GROUP        may connect, besides the owner; default: gpumemd's own\n"
        "  --cuda-library FILE  CUDA driver; default: $GPUMEM_CUDA_LIBRARY, then\n"
        "                       libcuda.so.1. libcuda-emu.so is the emulated one.\n"
        "  --nvml-library FILE  NVML; default: $GPUMEM_NVML_LIBRARY, libnvidia-ml.so.1\n"
        "  --canary on|off      try at the start whether memory is cleared; default: on\n"
        "  --device-bytes SIZE  most for each GPU's pool; default: the GPU's memory\n"
        "  --pinned-bytes SIZE  most for each pinned pool; default: a quarter of memory\n"
        "  --pinned-backing WAY memfd (default); vmm: for programs that all use CUDA\n"
        "  --log LEVEL          error, warning, info, debug; default: $GPUMEM_LOG, info\n"
        "  --help, --version\n"
        "SIZE: bytes, or with a unit: 512MiB, 1.5GiB; units are powers of 1024.\n"
        "SIGHUP reads the configuration again; SIGTERM ends: memory held stays valid.\n"
        "Exit status: 0 ended in order, 1 failure, 2 wrong option or file, 3 no driver.\n";

enum option_id {
        OPTION_SOCKET = 1024,
        OPTION_GROUP,
        OPTION_CUDA_LIBRARY,
        OPTION_NVML_LIBRARY,
        OPTION_CANARY,
        OPTION_CANARY_OF,
        OPTION_DEVICE_BYTES,
        OPTION_PINNED_BYTES,
        OPTION_PINNED_BACKING,
        OPTION_LOG,
        OPTION_CONFIG,
        OPTION_CHECK_CONFIG,
        OPTION_HELP,
        OPTION_VERSION,
};

static const struct option long_options[] = {
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"group", required_argument, NULL, OPTION_GROUP},
        {"cuda-library", required_argument, NULL, OPTION_CUDA_LIBRARY},
        {"nvml-library", required_argument, NULL, OPTION_NVML_LIBRARY},
        {"canary", required_argument, NULL, OPTION_CANARY},
        {"canary-of", required_argument, NULL, OPTION_CANARY_OF},
        {"device-bytes", required_argument, NULL, OPTION_DEVICE_BYTES},
        {"pinned-bytes", required_argument, NULL, OPTION_PINNED_BYTES},
        {"pinned-backing", required_argument, NULL, OPTION_PINNED_BACKING},
        {"log", required_argument, NULL, OPTION_LOG},
        {"config", required_argument, NULL, OPTION_CONFIG},
        {"check-config", required_argument, NULL, OPTION_CHECK_CONFIG},
        {"help", no_argument, NULL, OPTION_HELP},
        {"version", no_argument, NULL, OPTION_VERSION},
        {NULL, 0, NULL, 0},
};

static int parse_size(const char *option, const char *text, uint64_t *ret_bytes)
{
        uint64_t n_bytes;

        if (size_parse(text, &n_bytes) || n_bytes < 2 * MIB || n_bytes > UINT64_MAX / 2) {
                (void)fprintf(
                        stderr,
                        "gpumemd: invalid --%s \"%s\" (expected 2MiB or more, less than 8EiB, "
                        "in bytes or with a unit: 512MiB, 1.5GiB)\n",
                        option, text);
                return -EINVAL;
        }
        *ret_bytes = n_bytes;
        return 0;
}

static int parse_level(const char *name, const char *text, enum log_level *ret_level)
{
        int r = log_level_parse(text, ret_level);

        if (r)
                (void)fprintf(
                        stderr,
                        "gpumemd: invalid %s \"%s\" (expected error, warning, info or debug)\n",
                        name, text);
        return r;
}

/* The admin socket's path is longer. */
static int parse_socket(const char *text, const char **ret_path)
{
        struct sockaddr_un address, admin;
        int r = address_to_listen(text, &address);

        if (!r)
                r = address_of_admin(&address, &admin);
        if (r)
                (void)fprintf(stderr,
                              "gpumemd: invalid --socket \"%s\" (expected a path of 1-%zu bytes)\n",
                              text, sizeof(address.sun_path) - sizeof(ADDRESS_ADMIN_SUFFIX));
        else
                *ret_path = text;
        return r;
}

static int parse_group(const char *text, gid_t *ret_group)
{
        int r = group_parse(text, ret_group);

        if (r)
                (void)fprintf(
                        stderr,
                        "gpumemd: invalid --group \"%s\" (expected a gid or the name of a group)\n",
                        text);
        return r;
}

static int parse_backing(const char *text, enum pinned_backing *ret_backing)
{
        int r = pinned_backing_parse(text, ret_backing);

        if (r)
                (void)fprintf(stderr,
                              "gpumemd: invalid --pinned-backing \"%s\" (expected memfd or vmm)\n",
                              text);
        return r;
}

static int parse_canary(const char *text, enum canary_wish *ret_wish)
{
        int r = canary_wish_parse(text, ret_wish);

        if (r)
                (void)fprintf(stderr, "gpumemd: invalid --canary \"%s\" (expected on or off)\n",
                              text);
        return r;
}

static enum options_outcome take(int id, const char *value, struct options *options)
{
        int r = 0;

        switch (id) {
        case OPTION_SOCKET:
                r = parse_socket(value, &options->socket_path);
                break;
        case OPTION_GROUP:
                r = parse_group(value, &options->group);
                break;
        case OPTION_CUDA_LIBRARY:
                options->cuda_library = value;
                break;
        case OPTION_NVML_LIBRARY:
                options->nvml_library = value;
                break;
        case OPTION_CANARY:
                r = parse_canary(value, &options->canary);
                break;
        case OPTION_CANARY_OF:
                options->canary_ordinal = atoi(value);
                break;
        case OPTION_DEVICE_BYTES:
                r = parse_size("device-bytes", value, &options->n_device_bytes);
                break;
        case OPTION_PINNED_BYTES:
                r = parse_size("pinned-bytes", value, &options->n_pinned_bytes);
                break;
        case OPTION_PINNED_BACKING:
                r = parse_backing(value, &options->pinned_backing);
                break;
        case OPTION_LOG:
                r = parse_level("--log", value, &options->log_level);
                options->says_log_level = true;
                break;
        case OPTION_CONFIG:
                options->config_path = value;
                options->config_is_optional = false;
                break;
        case OPTION_CHECK_CONFIG:
                options->check_path = value;
                break;
        case 'h':
        case OPTION_HELP:
                (void)fputs(help_text, stdout);
                return OPTIONS_DONE;
        case OPTION_VERSION:
                (void)puts("gpumemd " PROJECT_VERSION);
                return OPTIONS_DONE;
        default:
                (void)fprintf(stderr, "gpumemd: see gpumemd --help\n");
                return OPTIONS_WRONG;
        }
        return r ? OPTIONS_WRONG : OPTIONS_RUN;
}

enum options_outcome options_parse(int argc, char **argv, struct options *ret_options)
{
        const char *level = secure_getenv("GPUMEM_LOG");
        struct options options = {
                .log_level = LOG_INFO,
                .says_log_level = level && *level,
                .config_path = CONFIG_DEFAULT_PATH,
                .config_is_optional = true,
                .canary_ordinal = -1,
                .group = SOCKET_FILE_OWN_GROUP,
        };
        static char program[] = "gpumemd";
        enum options_outcome outcome;
        int id;

        if (level && *level && parse_level("GPUMEM_LOG", level, &options.log_level))
                return OPTIONS_WRONG;
        /* getopt begins its messages with argv[0]. */
        argv[0] = program;
        while ((id = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
                outcome = take(id, optarg, &options);
                if (outcome != OPTIONS_RUN)
                        return outcome;
        }
        if (optind < argc) {
                (void)fprintf(stderr,
                              "gpumemd: unexpected argument \"%s\" (only options are allowed; see "
                              "--help)\n",
                              argv[optind]);
                return OPTIONS_WRONG;
        }
        *ret_options = options;
        return OPTIONS_RUN;
}
