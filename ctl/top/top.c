/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/runtime/last_error.h"
#include "ctl/core/connect.h"
#include "ctl/core/report.h"
#include "ctl/output/parse.h"
#include "ctl/query/event_rows.h"
#include "ctl/top/top_screen.h"
#include "gpumem.h"

#define DELAY_S     1
#define DELAY_S_MAX 3600

/* A screen must not stand still for long. */
#define ANSWER_S 2

static const char help[] =
        "Usage: gpumemctl top [OPTION]...\n"
        "Shows a live screen: a bar for each pool, a row for each client. Keys: s sorts,\n"
        "p shows one pool's rows, space pauses, h explains, q quits.\n"
        "\n"
        "  --sort KEY       leased, idle, lingering, blocks, waiting, age: the largest\n"
        "                   first; pid, program: the smallest; default: leased\n"
        "  --reverse        the other way round\n"
        "  --pool ID        rows of this pool\n"
        "  --delay SECONDS  between two updates; default: 1\n"
        "  --timeout SECONDS\n"
        "                   for a gpumemd that does not answer; default: 2\n"
        "  --socket, --wait  as in gpumemctl --help\n"
        "It needs a terminal; gpumemctl stats and clients print the same once. If gpumemd\n"
        "ends, top says so, and continues when gpumemd serves again.\n"
        "Only root and gpumemd's user see all tenants; other users see sums.\n";

enum { TOP_OPTION_SORT = OPTION_OWN, TOP_OPTION_REVERSE, TOP_OPTION_DELAY };

struct top_options {
        enum top_sort sort;
        bool is_reverse;
        unsigned delay_s; /* 0: DELAY_S */
};

/* A signal that ends programs came. */
static volatile sig_atomic_t ending;

static void end(int signal)
{
        ending = signal;
}

static void catch_signals(void)
{
        struct sigaction action = {.sa_handler = end};

        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGHUP, &action, NULL);
}

/* A connection that failed is closed; the next call makes another. */
static void look(const struct arguments *arguments, struct link **link, struct top *top)
{
        struct node_state node = NODE_STATE_NULL;
        int r = 0;

        if (!*link)
                r = connect_to_daemon(arguments, link);
        if (!r)
                r = node_state_fetch(*link, PROTO_ALL_POOLS, &node);
        if (!r)
                r = event_rows_fetch_end(*link, &top->is_ending);
        node_state_deinit(&top->node);
        top->node = node;
        top->trouble = NULL;
        if (!r)
                return;
        top->trouble = last_error_reason(r);
        *link = link_free(*link);
}

/* Waits for a key, a signal, or so many milliseconds; -1: without end. False: the terminal is gone, or a signal came. */
static bool await(int ms)
{
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

        if (!ending && poll(&input, 1, ms) > 0)
                return !(input.revents & (POLLHUP | POLLERR | POLLNVAL));
        return !ending;
}

/* All keys that have come. */
static enum top_wish take_keys(struct top *top)
{
        enum top_wish wish, most = TOP_NOTHING;

        while ((wish = top_screen_take_key(top)) != TOP_NOTHING) {
                if (wish > most)
                        most = wish;
        }
        return most;
}

static void show(const struct arguments *arguments, unsigned delay_s, struct link **link,
                 struct top *top)
{
        uint64_t next_ms = 0, now;
        enum top_wish wish = TOP_ASK;

        while (wish != TOP_QUIT) {
                if (wish == TOP_ASK || (!top->is_paused && clock_now_ms() >= next_ms)) {
                        look(arguments, link, top);
                        next_ms = clock_now_ms() + delay_s * UINT64_C(1000);
                }
                top_screen_draw(top);
                now = clock_now_ms();
                if (!await(top->is_paused ? -1 : now < next_ms ? (int)(next_ms - now) : 0))
                        return;
                wish = take_keys(top);
        }
}

static int report_terminal(int result)
{
        static const char elsewhere[] = "gpumemctl stats and clients print the same";
        const char *term = getenv("TERM");

        if (result == -ENOTTY)
                (void)fprintf(stderr,
                              "gpumemctl: top: needs a terminal as standard input and output; %s\n",
                              elsewhere);
        else
                (void)fprintf(stderr, "gpumemctl: top: %s: TERM is \"%s\"; %s\n",
                              result == -EOPNOTSUPP ? "the terminal cannot move its cursor"
                                                    : "unknown terminal",
                              term ? term : "", elsewhere);
        return STATUS_FAILURE;
}

/* Before there is a screen, on which it would be an empty list. Returns the exit status. */
static int check_pool(struct link *link, uint32_t pool)
{
        CLEANUP(pool_stats_deinit)
        struct pool_stats pool_stats = {.n = 0};
        int r;

        if (pool == PROTO_ALL_POOLS)
                return STATUS_OK;
        r = pool_stats_fetch(link, &pool_stats);
        if (r)
                return report_refusal(link, "top", r);
        r = pool_stats_check_pool(&pool_stats, pool);
        return r ? report_failure("top", r) : STATUS_OK;
}

static int run(struct link *none, const struct arguments *given)
{
        const struct top_options *own = given->own;
        struct arguments arguments = *given;
        struct top top = {.sort = own->sort, .is_reverse = own->is_reverse, .pool = given->pool};
        struct link *link = NULL;
        int r;

        (void)none;
        if (!arguments.timeout_s)
                arguments.timeout_s = ANSWER_S;
        if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
                return report_terminal(-ENOTTY);
        r = connect_to_daemon(&arguments, &link);
        if (r)
                return report_no_connection(r, &arguments);
        r = check_pool(link, arguments.pool);
        if (r) {
                link_free(link);
                return r;
        }
        r = top_screen_open();
        if (r) {
                link_free(link);
                return report_terminal(r);
        }
        /* Later there is a screen, which does not stand still for that. */
        arguments.wait_s = 0;
        catch_signals();
        show(&arguments, own->delay_s ? own->delay_s : DELAY_S, &link, &top);
        top_screen_close();
        node_state_deinit(&top.node);
        link_free(link);
        return STATUS_OK;
}

static int take_sort(const char *value, struct top_options *own)
{
        const char *name;

        for (unsigned i = 0; (name = top_sort_name((enum top_sort)i)); i++) {
                if (strcasecmp(name, value) == 0) {
                        own->sort = (enum top_sort)i;
                        return 0;
                }
        }
        return parse_refuse("--sort", value,
                            "leased, idle, lingering, blocks, waiting, age, pid, program");
}

static int take(int id, const char *value, struct arguments *arguments)
{
        struct top_options *own = arguments->own;
        uint64_t delay_s;

        switch (id) {
        case TOP_OPTION_SORT:
                return take_sort(value, own);
        case TOP_OPTION_REVERSE:
                own->is_reverse = true;
                return 0;
        default:
                if (parse_number(value, &delay_s) || delay_s < 1 || delay_s > DELAY_S_MAX)
                        return parse_refuse("--delay", value, "1-3600 seconds");
                own->delay_s = (unsigned)delay_s;
                return 0;
        }
}

static const struct option options[] = {
        COMMAND_OPTION_POOL,
        {"sort", required_argument, NULL, TOP_OPTION_SORT},
        {"reverse", no_argument, NULL, TOP_OPTION_REVERSE},
        {"delay", required_argument, NULL, TOP_OPTION_DELAY},
        COMMAND_OPTIONS_END,
};

static const struct command_value values[] = {
        {"sort", "leased idle lingering blocks waiting age pid program", NULL},
        COMMAND_VALUES_END,
};

const struct command top_command = {
        .name = "top",
        .line = "a live screen: a bar for each pool, a row for each client",
        .help = help,
        .options = options,
        .values = values,
        .take = take,
        .run = run,
        .n_own_bytes = sizeof(struct top_options),
        .answer = ANSWER_AS_IT_COMES,
        .link = COMMAND_LINKS,
};
