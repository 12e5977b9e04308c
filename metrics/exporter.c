/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemd-exporter: a daemon's statistics for Prometheus, over HTTP, so that gpumemd itself opens no port. */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "metrics/http.h"
#include "metrics/listen.h"
#include "proto/address.h"

#define TIMEOUT_S_DEFAULT 5
#define TIMEOUT_S_MAX     60

/* Roughly how much the kernel buffers of a response that the client does not read, and of a request that is
 * not read yet. All connections together must fit into the unit's MemoryMax. The kernel doubles the values. */
#define SEND_BYTES    65536
#define RECEIVE_BYTES 8192

enum exit_status { STATUS_OK = 0, STATUS_FAILURE = 1, STATUS_USAGE = 2 };

static const char help_text[] =
        "Usage: gpumemd-exporter [OPTION]...\n"
        "Serves the figures of a gpumemd to Prometheus, at /metrics, as OpenMetrics or in\n"
        "the older text format. It asks at each scrape; scrapes of one second share an\n"
        "answer. While gpumemd does not answer, gpumemd_up is 0.\n"
        "\n"
        "  --listen ADDRESS:PORT\n"
        "                 default: " LISTEN_DEFAULT "; [::1]:PORT for IPv6, 0.0.0.0:PORT\n"
        "                 for other machines too; port 0: any that is free\n"
        "  --socket PATH  where gpumemd listens; default: $GPUMEM_SOCKET,\n"
        "                 /run/gpumemd/gpumemd.sock, then\n"
        "                 $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock\n"
        "  --timeout SECONDS\n"
        "                 for gpumemd to answer; default: 5, at most 60\n"
        "  --tenants      figures of each tenant too, by uid and container, 1000 rows at\n"
        "                 most; of others than its own only root and gpumemd's user hear\n"
        "  --log LEVEL    error, warning, info, debug; default: $GPUMEM_LOG, info\n"
        "  --help, --version\n"
        "Exit status: 0 ended by SIGTERM or SIGINT, 1 failure, 2 wrong option.\n";

enum option_id {
        OPTION_LISTEN = 1,
        OPTION_SOCKET,
        OPTION_TIMEOUT,
        OPTION_TENANTS,
        OPTION_LOG,
        OPTION_HELP,
        OPTION_VERSION,
};

static const struct option long_options[] = {
        {"listen", required_argument, NULL, OPTION_LISTEN},
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},
        {"tenants", no_argument, NULL, OPTION_TENANTS},
        {"log", required_argument, NULL, OPTION_LOG},
        {"help", no_argument, NULL, OPTION_HELP},
        {"version", no_argument, NULL, OPTION_VERSION},
        {NULL, 0, NULL, 0},
};

struct options {
        struct listen_address address;
        struct asker_wish wish;
        enum log_level level;
};

/* Result of reading the command line. */
enum parsed { PARSED_RUN, PARSED_DONE, PARSED_WRONG };

static enum parsed parse_listen(const char *text, struct options *options)
{
        if (listen_parse(text, &options->address) == 0)
                return PARSED_RUN;
        (void)fprintf(stderr,
                      "gpumemd-exporter: invalid --listen \"%s\" (expected an address such as "
                      "127.0.0.1:14900 or [::1]:14900)\n",
                      text);
        return PARSED_WRONG;
}

static enum parsed parse_socket(const char *text, struct options *options)
{
        struct sockaddr_un address;

        if (address_to_connect(text, &address)) {
                (void)fprintf(stderr,
                              "gpumemd-exporter: invalid --socket \"%s\" (expected a path of "
                              "1-107 bytes)\n",
                              text);
                return PARSED_WRONG;
        }
        options->wish.socket_path = text;
        return PARSED_RUN;
}

static enum parsed parse_timeout(const char *text, struct options *options)
{
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || value < 1 || value > TIMEOUT_S_MAX) {
                (void)fprintf(
                        stderr,
                        "gpumemd-exporter: invalid --timeout \"%s\" (expected 1-%d seconds)\n",
                        text, TIMEOUT_S_MAX);
                return PARSED_WRONG;
        }
        options->wish.answer_ms = (uint32_t)value * 1000;
        return PARSED_RUN;
}

static enum parsed parse_level(const char *name, const char *text, struct options *options)
{
        if (log_level_parse(text, &options->level) == 0)
                return PARSED_RUN;
        (void)fprintf(
                stderr,
                "gpumemd-exporter: invalid %s \"%s\" (expected error, warning, info or debug)\n",
                name, text);
        return PARSED_WRONG;
}

static enum parsed take_option(int id, const char *value, struct options *options)
{
        switch (id) {
        case OPTION_LISTEN:
                return parse_listen(value, options);
        case OPTION_SOCKET:
                return parse_socket(value, options);
        case OPTION_TIMEOUT:
                return parse_timeout(value, options);
        case OPTION_TENANTS:
                options->wish.with_tenants = true;
                return PARSED_RUN;
        case OPTION_LOG:
                return parse_level("--log", value, options);
        case OPTION_HELP:
                (void)fputs(help_text, stdout);
                return PARSED_DONE;
        case OPTION_VERSION:
                (void)puts("gpumemd-exporter " PROJECT_VERSION);
                return PARSED_DONE;
        default:
                (void)fprintf(stderr, "gpumemd-exporter: see gpumemd-exporter --help\n");
                return PARSED_WRONG;
        }
}

static enum parsed parse(int argc, char **argv, struct options *options)
{
        static char program[] = "gpumemd-exporter";
        const char *level = secure_getenv("GPUMEM_LOG");
        enum parsed parsed = parse_listen(LISTEN_DEFAULT, options);
        int id;

        if (level && *level)
                parsed = parse_level("GPUMEM_LOG", level, options);
        /* getopt begins its messages with argv[0]. */
        argv[0] = program;
        while (parsed == PARSED_RUN && (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
                parsed = take_option(id, optarg, options);
        if (parsed == PARSED_RUN && optind < argc) {
                (void)fprintf(stderr,
                              "gpumemd-exporter: unexpected argument \"%s\" (only options are "
                              "allowed; see --help)\n",
                              argv[optind]);
                return PARSED_WRONG;
        }
        return parsed;
}

/* Accepted sockets inherit this. Without it the kernel lets the buffers grow with what comes. */
static int limit_buffers(int fd)
{
        int n_sent = SEND_BYTES, n_received = RECEIVE_BYTES;

        if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n_sent, sizeof(n_sent)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n_received, sizeof(n_received)) < 0)
                return err_errno();
        return 0;
}

/* Also returns the bound address: the kernel may have chosen the port. */
static int bind_socket(const struct listen_address *wanted, struct listen_address *ret_bound,
                       int *ret_fd)
{
        CLEANUP(closep)
        int fd = socket(wanted->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct listen_address bound = {.n_bytes = sizeof(bound.ipv6)};
        int one = 1, r;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
                return err_errno();
        r = limit_buffers(fd);
        if (r)
                return r;
        if (bind(fd, &wanted->any, wanted->n_bytes) < 0 || listen(fd, SOMAXCONN) < 0 ||
            getsockname(fd, &bound.any, &bound.n_bytes) < 0)
                return err_errno();
        *ret_bound = bound;
        *ret_fd = steal_fd(&fd);
        return 0;
}

static int open_signals(int *ret_fd)
{
        sigset_t ends;
        int fd;

        (void)signal(SIGPIPE, SIG_IGN);
        (void)sigemptyset(&ends);
        (void)sigaddset(&ends, SIGTERM);
        (void)sigaddset(&ends, SIGINT);
        if (sigprocmask(SIG_BLOCK, &ends, NULL) < 0)
                return err_errno();
        fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return err_errno();
        *ret_fd = fd;
        return 0;
}

/* Serves until a signal. */
static int serve(struct http *http, const struct asker *asker, int signals)
{
        struct pollfd fds[] = {
                {.fd = http_fd(http), .events = POLLIN},
                {.fd = asker_fd(asker), .events = POLLIN},
                {.fd = signals, .events = POLLIN},
        };

        while (!fds[2].revents) {
                if (poll(fds, ARRAY_SIZE(fds), http_run(http)) < 0 && errno != EINTR)
                        return err_errno();
        }
        return 0;
}

static int serve_at(int take_socket, const struct asker_wish *wish, int signals)
{
        struct asker *asker = NULL;
        struct http *http = NULL;
        int r = asker_new(wish, &asker);

        if (r)
                (void)close(take_socket);
        else
                r = http_new(take_socket, asker, wish->answer_ms, &http);
        if (!r)
                r = serve(http, asker, signals);
        http_free(http);
        asker_free(asker);
        return r;
}

static int run(const struct options *options)
{
        char text[LISTEN_TEXT_MAX];
        struct listen_address bound;
        CLEANUP(closep)
        int signals = -1;
        int socket = -1, r;

        r = open_signals(&signals);
        if (!r)
                r = bind_socket(&options->address, &bound, &socket);
        if (r) {
                log_error("cannot listen at %s: %s", listen_format(&options->address, text),
                          strerror(-r));
                return STATUS_FAILURE;
        }
        log_info("metrics are at http://%s/metrics", listen_format(&bound, text));
        r = serve_at(socket, &options->wish, signals);
        if (r)
                log_error("%s", strerror(-r));
        return r ? STATUS_FAILURE : STATUS_OK;
}

int main(int argc, char **argv)
{
        struct options options = {
                .wish = {.answer_ms = TIMEOUT_S_DEFAULT * 1000},
                .level = LOG_INFO,
        };

        if (fds_fill_standard())
                return STATUS_FAILURE;
        switch (parse(argc, argv, &options)) {
        case PARSED_RUN:
                log_setup("gpumemd-exporter", options.level);
                return run(&options);
        case PARSED_DONE:
                return fflush(stdout) ? STATUS_FAILURE : STATUS_OK;
        case PARSED_WRONG:
                break;
        }
        return STATUS_USAGE;
}
