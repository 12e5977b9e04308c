/* gpumemctl: a daemon's figures on one screen, and what an administrator does about them. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "ctl/commands.h"
#include "gpumem.h"
#include "proto/address.h"

#define WAIT_S_MAX 86400

/* Between tries to connect. */
#define RETRY_MS 20

static const char help_text[] =
        "Usage: gpumemctl [OPTION]... COMMAND\n"
        "Looks at a running gpumemd.\n"
        "\n"
        "  stats          what each pool holds: reserved = leased + cached + lingering\n"
        "  devices        each GPU's free memory, what others use, MIG, errors, its state\n"
        "  clients, blocks, tenants\n"
        "                 who holds what; only root and the daemon's user see all\n"
        "  reset-peaks    PEAK of tenants, reserved_peak of stats --json begin anew\n"
        "  free-all       gives cached and idle blocks back to the driver\n"
        "  limits         what clients, tenants and pools may have; limits --help\n"
        "\n"
        "  --socket PATH  where gpumemd listens; default: $GPUMEM_SOCKET,\n"
        "                 /run/gpumemd/gpumemd.sock, then\n"
        "                 $XDG_RUNTIME_DIR/gpumemd/gpumemd.sock\n"
        "  --wait SECONDS for a gpumemd that does not listen yet; default: 0\n"
        "  --timeout SECONDS\n"
        "                 for a gpumemd that is there and says nothing; default: 10\n"
        "  --json         for programs: sizes in bytes\n"
        "  --pool ID      free-all, blocks, reset-peaks: this pool only\n"
        "  --tenant       free-all, reset-peaks: the caller's own only; default: every\n"
        "                 tenant's, for root and who may open PATH.admin\n"
        "  --help, --version\n"
        "Exit status: 0 done, 1 refused or failed, 2 wrong option or command,\n"
        "3 no daemon, or none that answers.\n";

enum option_id {
        OPTION_SOCKET = 1,
        OPTION_WAIT,
        OPTION_TIMEOUT,
        OPTION_JSON,
        OPTION_POOL,
        OPTION_TENANT,
        OPTION_SET,
        OPTION_HELP,
        OPTION_VERSION,
};

static const struct option long_options[] = {
        {"socket", required_argument, NULL, OPTION_SOCKET},
        {"wait", required_argument, NULL, OPTION_WAIT},
        {"timeout", required_argument, NULL, OPTION_TIMEOUT},
        {"json", no_argument, NULL, OPTION_JSON},
        {"pool", required_argument, NULL, OPTION_POOL},
        {"tenant", no_argument, NULL, OPTION_TENANT},
        {"set", required_argument, NULL, OPTION_SET},
        {"help", no_argument, NULL, OPTION_HELP},
        {"version", no_argument, NULL, OPTION_VERSION},
        {NULL, 0, NULL, 0},
};

/* Options that only some commands take. */
enum narrowing { NARROWS_NOTHING = 0, NARROWS_POOL = 1, NARROWS_TENANT = 2 };

static const struct {
        const char *name;
        int (*run)(struct link *link, const struct arguments *arguments);
        const char *help;
        unsigned narrowing; /* those that it takes */
} commands[] = {
        {"stats", command_stats, help_text, NARROWS_NOTHING},
        {"devices", command_devices, help_text, NARROWS_NOTHING},
        {"clients", command_clients, help_text, NARROWS_NOTHING},
        {"blocks", command_blocks, help_text, NARROWS_POOL},
        {"tenants", command_tenants, help_text, NARROWS_NOTHING},
        {"reset-peaks", command_reset_peaks, help_text, NARROWS_POOL | NARROWS_TENANT},
        {"free-all", command_free_all, help_text, NARROWS_POOL | NARROWS_TENANT},
        {"limits", command_limits, limits_help_text, NARROWS_NOTHING},
};

struct invocation {
        const char *socket_path;
        unsigned wait_s;
        unsigned timeout_s; /* 0: the library's own */
        bool wants_help;
        struct arguments arguments;
        unsigned narrowing;
        int (*run)(struct link *link, const struct arguments *arguments);
};

/* What reading the command line came to. */
enum parsed { PARSED_RUN, PARSED_DONE, PARSED_WRONG };

static enum parsed parse_pool(const char *text, uint32_t *ret_pool)
{
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || value >= PROTO_POOLS_MAX) {
                (void)fprintf(stderr,
                              "gpumemctl: --pool: \"%s\" is no pool; gpumemctl stats lists them\n",
                              text);
                return PARSED_WRONG;
        }
        *ret_pool = (uint32_t)value;
        return PARSED_RUN;
}

static enum parsed parse_seconds(const char *option, const char *text, unsigned least,
                                 unsigned *ret_seconds)
{
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || *end || value < least || value > WAIT_S_MAX) {
                (void)fprintf(stderr,
                              "gpumemctl: %s: \"%s\" is no time; allowed: %u to %d seconds\n",
                              option, text, least, WAIT_S_MAX);
                return PARSED_WRONG;
        }
        *ret_seconds = (unsigned)value;
        return PARSED_RUN;
}

static enum parsed add_change(const char *text, struct arguments *arguments)
{
        if (arguments->n_changes == LIMIT_CHANGES_MAX) {
                (void)fprintf(stderr, "gpumemctl: --set: %d at a time are allowed\n",
                              LIMIT_CHANGES_MAX);
                return PARSED_WRONG;
        }
        if (limit_change_parse(text, &arguments->changes[arguments->n_changes]))
                return PARSED_WRONG;
        arguments->n_changes++;
        return PARSED_RUN;
}

static enum parsed take_option(int id, const char *value, struct invocation *invocation)
{
        switch (id) {
        case OPTION_SOCKET:
                invocation->socket_path = value;
                return PARSED_RUN;
        case OPTION_WAIT:
                return parse_seconds("--wait", value, 0, &invocation->wait_s);
        case OPTION_TIMEOUT:
                return parse_seconds("--timeout", value, 1, &invocation->timeout_s);
        case OPTION_JSON:
                invocation->arguments.output = OUTPUT_JSON;
                return PARSED_RUN;
        case OPTION_POOL:
                invocation->narrowing |= NARROWS_POOL;
                return parse_pool(value, &invocation->arguments.pool);
        case OPTION_TENANT:
                invocation->narrowing |= NARROWS_TENANT;
                invocation->arguments.scope = PROTO_SCOPE_TENANT;
                return PARSED_RUN;
        case OPTION_SET:
                return add_change(value, &invocation->arguments);
        case OPTION_HELP:
                invocation->wants_help = true;
                return PARSED_RUN;
        case OPTION_VERSION:
                (void)puts("gpumemctl " PROJECT_VERSION);
                return PARSED_DONE;
        default:
                (void)fprintf(stderr, "gpumemctl: see gpumemctl --help\n");
                return PARSED_WRONG;
        }
}

/* The command's own help if there is one command, and it has some. */
static enum parsed show_help(int argc, char **argv)
{
        const char *text = help_text;

        for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
                if (optind + 1 == argc && strcmp(argv[optind], commands[i].name) == 0)
                        text = commands[i].help;
        }
        (void)fputs(text, stdout);
        return PARSED_DONE;
}

static enum parsed take_command(int argc, char **argv, struct invocation *invocation)
{
        unsigned wrong;

        if (optind + 1 < argc) {
                (void)fprintf(
                        stderr,
                        "gpumemctl: \"%s\": only one command is taken; see gpumemctl --help\n",
                        argv[optind + 1]);
                return PARSED_WRONG;
        }
        if (optind == argc) {
                (void)fprintf(stderr, "gpumemctl: one command is needed; see gpumemctl --help\n");
                return PARSED_WRONG;
        }
        for (unsigned i = 0; i < ARRAY_SIZE(commands); i++) {
                if (strcmp(argv[optind], commands[i].name) != 0)
                        continue;
                wrong = invocation->narrowing & ~commands[i].narrowing;
                if (wrong) {
                        (void)fprintf(stderr, "gpumemctl: %s takes no %s\n", commands[i].name,
                                      wrong & NARROWS_POOL ? "--pool" : "--tenant");
                        return PARSED_WRONG;
                }
                invocation->run = commands[i].run;
                if (!invocation->arguments.n_changes || invocation->run == command_limits)
                        return PARSED_RUN;
                (void)fprintf(stderr, "gpumemctl: --set: only limits can be set\n");
                return PARSED_WRONG;
        }
        (void)fprintf(stderr, "gpumemctl: there is no command \"%s\"; see gpumemctl --help\n",
                      argv[optind]);
        return PARSED_WRONG;
}

static enum parsed parse(int argc, char **argv, struct invocation *invocation)
{
        int id;

        while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
                enum parsed parsed = take_option(id, optarg, invocation);

                if (parsed != PARSED_RUN)
                        return parsed;
        }
        if (invocation->wants_help)
                return show_help(argc, argv);
        return take_command(argc, argv, invocation);
}

static uint64_t now_ms(void)
{
        struct timespec time;

        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

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

/* Until somebody listens, or the time is over. */
static int connect_patiently(const struct invocation *invocation, struct link **ret_link)
{
        const struct link_hello hello = {.program = "gpumemctl",
                                         .answer_ms = invocation->timeout_s * 1000};
        const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
        uint64_t deadline_ms = now_ms() + (uint64_t)invocation->wait_s * 1000;
        int r;

        for (;;) {
                CLEANUP(fdset_deinit)
                struct fdset fds = FDSET_NULL;
                struct message_welcome welcome;
                struct sockaddr_un admin;

                r = link_open(choose_socket(invocation->socket_path, &admin), &hello, ret_link,
                              &welcome, &fds);
                if (r != GPUMEM_E_DISCONNECTED || now_ms() >= deadline_ms)
                        return r;
                (void)nanosleep(&pause, NULL);
        }
}

static int run(const struct invocation *invocation)
{
        struct link *link;
        int r, status;

        r = connect_patiently(invocation, &link);
        if (r)
                return report_failure("no connection to gpumemd", r);
        status = invocation->run(link, &invocation->arguments);
        link_free(link);
        return status;
}

static int parse_and_run(int argc, char **argv)
{
        struct invocation invocation = {
                .arguments = {.pool = PROTO_ALL_POOLS, .scope = PROTO_SCOPE_NODE},
        };

        switch (parse(argc, argv, &invocation)) {
        case PARSED_RUN:
                return run(&invocation);
        case PARSED_DONE:
                return STATUS_OK;
        case PARSED_WRONG:
                break;
        }
        return STATUS_USAGE;
}

static int report_unwritten(int error, int status)
{
        (void)fprintf(stderr, "gpumemctl: the answer could not be written: %s\n", strerror(error));
        return status == STATUS_OK ? STATUS_FAILURE : status;
}

/* The answer is whole before any of it is written: until then nothing but memory can fail, and errno
 * is still that of the writing. */
int main(int argc, char **argv)
{
        FILE *output = stdout;
        char *answer = NULL;
        size_t n_bytes;
        int status, r;

        log_setup("gpumemctl", LOG_WARNING);
        if (fds_fill_standard())
                return report_unwritten(errno, STATUS_FAILURE);
        stdout = open_memstream(&answer, &n_bytes);
        if (!stdout)
                return report_unwritten(errno, STATUS_FAILURE);
        status = parse_and_run(argc, argv);
        r = fclose(stdout);
        stdout = output;
        if (r)
                status = report_unwritten(ENOMEM, status);
        else if (fwrite(answer, 1, n_bytes, output) != n_bytes || fflush(output))
                status = report_unwritten(errno, status);
        free(answer);
        return status;
}
