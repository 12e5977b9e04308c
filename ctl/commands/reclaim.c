/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemctl reclaim: a user's, or a container's, memory goes back to the driver, and nothing is left of it. */
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/listing.h"
#include "gpumem.h"

#define RETRY_MS 200

/* How long a release by a driver that hangs is waited for. */
#define RELEASE_S 10

static const char help[] =
        "Usage: gpumemctl reclaim --uid USER | --cgroup NAME [OPTION]...\n"
        "Gives cached and idle memory of the tenants of a user, in a container, or both\n"
        "back to the driver. With --wait it waits until nothing is leased or charged to\n"
        "them. It is for the epilog of a job, and needs root, or access to the admin\n"
        "socket.\n"
        "\n"
        "  --uid USER      a name or a uid\n"
        "  --cgroup NAME   the container as gpumemctl tenants shows it (job_12), or a\n"
        "                  path of its cgroup: /sys/fs/cgroup/.../job_12\n"
        "  --wait SECONDS  how long to wait until nothing is left, and for a gpumemd that\n"
        "                  does not listen yet; default: 0\n"
        "  --json          for programs\n"
        "  --socket, --timeout  as in gpumemctl --help\n"
        "Memory that clients of other tenants hold and are charged for is reported, but\n"
        "not counted as left. Exit status: 0 nothing is left, or no such tenant; 1 memory\n"
        "is left, its holders are listed; 4 tenants are not told apart by containers.\n";

enum { RECLAIM_UID = OPTION_OWN, RECLAIM_CGROUP };

struct wanted {
        bool has_uid;
        uint32_t uid;
        const char *container;
};

/* All rounds together; what is left after the last one. */
struct outcome {
        uint64_t n_bytes;
        uint64_t n_blocks;
        uint32_t n_meant; /* tenants, in the round that named most */
        struct message_reclaimed last;
};

static void on_alarm(int signal)
{
        static const char text[] =
                "gpumemctl: reclaim: the driver has not taken all back in time\n";

        (void)signal;
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(STATUS_FAILURE);
}

/* The daemon answers when the driver has taken the blocks, and a driver may hang. */
static void limit_time(const struct arguments *arguments)
{
        struct sigaction action = {.sa_handler = on_alarm};

        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(SIGALRM, &action, NULL);
        (void)alarm(arguments->wait_s + (arguments->timeout_s ? arguments->timeout_s : RELEASE_S));
}

static int reclaim(struct link *link, const struct wanted *wanted, struct outcome *outcome)
{
        CLEANUP(fdset_deinit)
        struct fdset fds = FDSET_NULL;
        struct frame request = FRAME_NULL, reply;
        int r;

        request.reclaim.uid = wanted->has_uid ? wanted->uid : LISTING_NOBODY;
        proto_put_text(request.reclaim.container, sizeof(request.reclaim.container),
                       wanted->container ? wanted->container : "");
        r = link_call(link, &request, MESSAGE_RECLAIM, MESSAGE_RECLAIMED, &reply, &fds);
        if (r)
                return r;
        outcome->n_bytes += reply.reclaimed.n_bytes;
        outcome->n_blocks += reply.reclaimed.n_blocks;
        if (reply.reclaimed.n_meant > outcome->n_meant)
                outcome->n_meant = reply.reclaimed.n_meant;
        outcome->last = reply.reclaimed;
        return 0;
}

static bool is_done(const struct outcome *outcome)
{
        return !outcome->last.n_left_bytes && !outcome->last.n_charged_bytes;
}

static void show_progress(const struct outcome *outcome, uint64_t left_ms)
{
        char text[SIZE_TEXT_MAX];

        if (!isatty(STDERR_FILENO))
                return;
        (void)fprintf(stderr, "\rgpumemctl: reclaim: %s left, %" PRIu64 " s more  ",
                      size_format(outcome->last.n_left_bytes, text), left_ms / 1000);
}

static void end_progress(void)
{
        if (isatty(STDERR_FILENO))
                (void)fprintf(stderr, "\r%60s\r", "");
}

static int reclaim_until_done(struct link *link, const struct arguments *arguments,
                              struct outcome *outcome)
{
        const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
        uint64_t deadline_ms = clock_now_ms() + (uint64_t)arguments->wait_s * 1000, now;
        bool waited = false;
        int r;

        for (;;) {
                r = reclaim(link, arguments->own, outcome);
                now = clock_now_ms();
                if (r || is_done(outcome) || now >= deadline_ms)
                        break;
                show_progress(outcome, deadline_ms - now);
                waited = true;
                (void)nanosleep(&pause, NULL);
        }
        if (waited)
                end_progress();
        return r;
}

static bool is_meant(const struct client_row *row, const struct wanted *wanted,
                     const struct outcome *outcome)
{
        if (row->state == LISTED_OTHERS || (wanted->has_uid && row->uid != wanted->uid))
                return false;
        return !wanted->container ||
               strncmp(row->container, outcome->last.container, sizeof(row->container)) == 0;
}

static bool holds_something(const struct client_row *row)
{
        return row->device_charged || row->pinned_charged || row->device_leased ||
               row->pinned_leased;
}

static int fetch_holders(struct link *link, const struct wanted *wanted,
                         const struct outcome *outcome, struct listed *ret_holders)
{
        struct frame request = FRAME_NULL;
        struct client_row *rows;
        uint32_t n = 0;
        int r = listing_fetch(link, &listing_clients, &request, ret_holders);

        rows = (void *)ret_holders->rows;
        for (uint32_t i = 0; !r && i < ret_holders->n_rows; i++) {
                if (is_meant(&rows[i], wanted, outcome) && holds_something(&rows[i]))
                        rows[n++] = rows[i];
        }
        ret_holders->n_rows = n;
        return r;
}

static int print_json(const struct outcome *outcome, const struct listed *holders)
{
        json_t *rows = json_array();

        for (uint32_t i = 0; i < holders->n_rows; i++)
                (void)json_array_append_new(
                        rows, listing_row_to_json(&client_row_list,
                                                  holders->rows + i * sizeof(struct client_row)));
        return print_json_value(json_pack(
                "{s:I, s:I, s:I, s:I, s:I, s:o}", "freed_bytes", json_figure(outcome->n_bytes),
                "freed_blocks", json_figure(outcome->n_blocks), "left_bytes",
                json_figure(outcome->last.n_left_bytes), "shared_bytes",
                json_figure(outcome->last.n_shared_bytes), "charged_bytes",
                json_figure(outcome->last.n_charged_bytes), "holders", rows));
}

static void print_holder(const struct client_row *row)
{
        char device[SIZE_TEXT_MAX], pinned[SIZE_TEXT_MAX];

        (void)printf("pid %" PRIu32 " (%s), uid %" PRIu32 ", %s: %s device, %s pinned\n", row->pid,
                     row->program, row->uid, listed_client_name(row->state),
                     size_format(row->device_charged, device),
                     size_format(row->pinned_charged, pinned));
}

/* gpumemctl tenants lists those that there are. */
static void print_nobody(const struct wanted *wanted)
{
        char user[32] = "";

        if (wanted->has_uid)
                (void)snprintf(user, sizeof(user), " of uid %" PRIu32, wanted->uid);
        (void)printf("no tenant%s", user);
        if (wanted->container)
                (void)printf(" in container \"%s\"", wanted->container);
        (void)printf(": gpumemctl tenants lists %s\n",
                     wanted->container ? "them, by CONTAINER" : "them, by UID");
}

static void print_lines(const struct wanted *wanted, const struct outcome *outcome,
                        const struct listed *holders)
{
        char freed[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX], shared[SIZE_TEXT_MAX];
        const struct client_row *rows = (const void *)holders->rows;

        (void)printf("%s in %" PRIu64 " %s went back to the driver; ",
                     size_format(outcome->n_bytes, freed), outcome->n_blocks,
                     outcome->n_blocks == 1 ? "block" : "blocks");
        if (!outcome->n_meant)
                print_nobody(wanted);
        else if (is_done(outcome))
                (void)printf("nothing is left\n");
        else
                (void)printf("%s are left\n", size_format(outcome->last.n_left_bytes, left));
        if (outcome->last.n_shared_bytes)
                (void)printf("%s are shared with other tenants, which are charged for it\n",
                             size_format(outcome->last.n_shared_bytes, shared));
        for (uint32_t i = 0; i < holders->n_rows; i++)
                print_holder(&rows[i]);
}

/* For a script of a cluster's this is another matter than memory that is left. */
static int report_why(struct link *link, const struct wanted *wanted, int r)
{
        int status = report_refusal(link, "reclaim", r);

        return r == GPUMEM_E_BAD_REQUEST && wanted->container ? STATUS_NO_CONTAINERS : status;
}

static int run_linked(struct link *link, const struct arguments *arguments)
{
        CLEANUP(listed_deinit)
        struct listed holders = {.n_rows = 0};
        struct outcome outcome = {.n_bytes = 0};
        int r, status = STATUS_OK;

        limit_time(arguments);
        r = reclaim_until_done(link, arguments, &outcome);
        if (!r && !is_done(&outcome))
                r = fetch_holders(link, arguments->own, &outcome, &holders);
        (void)alarm(0);
        if (r)
                return report_why(link, arguments->own, r);
        if (arguments->output == OUTPUT_JSON)
                status = print_json(&outcome, &holders);
        else
                print_lines(arguments->own, &outcome, &holders);
        return status == STATUS_OK && !is_done(&outcome) ? STATUS_FAILURE : status;
}

static int run(struct link *none, const struct arguments *arguments)
{
        const struct wanted *wanted = arguments->own;
        struct link *link;
        int r, status;

        (void)none;
        if (!wanted->has_uid && !wanted->container) {
                (void)fprintf(stderr,
                              "gpumemctl: reclaim needs --uid or --cgroup; see gpumemctl help "
                              "reclaim\n");
                return STATUS_USAGE;
        }
        r = connect_to_daemon(arguments, &link);
        if (r)
                return report_no_connection(r, arguments);
        status = run_linked(link, arguments);
        link_free(link);
        return status;
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct wanted *wanted = arguments->own;

        if (id == RECLAIM_UID) {
                if (parse_user(value, &wanted->uid) || wanted->uid == LISTING_NOBODY)
                        return parse_refuse("--uid", value, "a uid or a user name");
                wanted->has_uid = true;
                return 0;
        }
        if (!*value || strlen(value) >= sizeof(((struct message_reclaim *)0)->container))
                return parse_refuse("--cgroup", value, "a name of 1-251 bytes");
        wanted->container = value;
        return 0;
}

static const struct option options[] = {
        COMMAND_OPTION_JSON,
        {"uid", required_argument, NULL, RECLAIM_UID},
        {"cgroup", required_argument, NULL, RECLAIM_CGROUP},
        COMMAND_OPTIONS_END,
};

const struct command reclaim_command = {
        .name = "reclaim",
        .line = "gives back the memory of a user or a container: for epilogs",
        .help = help,
        .options = options,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct wanted),
        .link = COMMAND_LINKS,
};
