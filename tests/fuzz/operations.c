/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's server as a whole, between processes that say and do what they like, in an order that the input decides,
 * and a machine that fails when the input says so. Now and then the policy's books are checked from scratch; at the end
 * all that was said is served once everybody reads, nothing is charged, nothing is left. */
#include <signal.h>
#include <sys/queue.h>

#include "base/size.h"
#include "daemon/policy/check/check.h"
#include "daemon/policy/report/event_history.h"
#include "daemon/server/listener.h"
#include "daemon/server/transport/lane.h"
#include "daemon/server/pools/prewarming.h"
#include "daemon/server/server.h"
#include "daemon/server/session/session.h"
#include "gpumem.h"
#include "tests/fuzz/deeds.h"
#include "tests/fuzz/epoll.h"
#include "tests/fuzz/loop.h"
#include "tests/fuzz/machine.h"
#include "tests/fuzz/wakes.h"

const char fuzz_name[] = "operations";

/* Turns in which everything must come to its end. */
#define N_TURNS_MAX 2000
#define N_STEPS_MAX 400

/* Turns after which the books are checked: it takes longer than they do. */
#define N_TURNS_A_CHECK 16

#define N_HISTORY_ROWS 64

#define N_FEW_FDS    16
#define N_FEW_SHARED 3

/* So many of 10 ms: for longer than between looks at a peer that has not taken all. */
#define N_TURNS_OF_SETTLING 16

/* So many of half a second: for longer than between looks at a peer that has not read. */
#define N_TURNS_OF_READING 8

/* No socket listens: connections are accepted when the input says so. */
int __wrap_listener_new(struct server *server, const struct server_options *options,
                        struct listener **ret_listener);
int __wrap_listener_new(struct server *server, const struct server_options *options,
                        struct listener **ret_listener)
{
        (void)server;
        (void)options;
        *ret_listener = NULL;
        return 0;
}

/* No thread may run beside the played world: a user that is slow there is not served. */
int __wrap_lane_new(struct fd_closer *closer, atomic_uint *n_all, struct lane **ret_lane);
int __wrap_lane_new(struct fd_closer *closer, atomic_uint *n_all, struct lane **ret_lane)
{
        (void)closer;
        (void)n_all;
        (void)ret_lane;
        return -ENOMEM;
}

struct listener *__wrap_listener_close(struct listener *listener);
struct listener *__wrap_listener_close(struct listener *listener)
{
        return listener;
}

/* So few that inputs push some out, and fast: the daemon's own are some megabytes, again for each input. */
int __real_event_history_new(uint32_t n_rows, uint64_t first_number,
                             struct event_history **ret_history);
int __wrap_event_history_new(uint32_t n_rows, uint64_t first_number,
                             struct event_history **ret_history);
int __wrap_event_history_new(uint32_t n_rows, uint64_t first_number,
                             struct event_history **ret_history)
{
        (void)n_rows;
        return __real_event_history_new(N_HISTORY_ROWS, first_number, ret_history);
}

static void work(struct world *world)
{
        uint8_t how = input_byte(world->input);
        enum machine_work result = how < 216 ? WORK_DONE : how < 236 ? WORK_IS_FULL : WORK_FAILS;

        machine_work(how % MACHINE_N_POOLS, result);
}

static void pass_time(struct world *world)
{
        uint8_t how = input_byte(world->input);

        loop_pass(how < 128 ? how : how < 240 ? how * 20u : 700000u);
}

static void trouble(struct world *world)
{
        uint8_t how = input_byte(world->input);
        unsigned pool = how / 4 % MACHINE_N_POOLS;

        switch (how % 4) {
        case 0:
                if (how >= 0xf8)
                        loop_signal(SIGTERM);
                else
                        machine_set_strangers(pool, deeds_any_bytes(world) % (64 * MIB));
                break;
        case 1:
                if (how & 0x40)
                        machine_hang(pool);
                else
                        machine_punch(pool);
                break;
        case 2:
                if (how & 0x80)
                        peers.watch_fails = how / 16 % 8;
                else
                        peers.send_fails = how / 16;
                break;
        default:
                world->server->pools[pool].device.report.health = (enum nvml_health)(how / 16 % 6);
                break;
        }
}

static void apply(struct world *world)
{
        struct pool_rule rules[2] = {
                {.selector = POOL_OF_EACH_DEVICE,
                 .max_bytes = 2 * MIB + deeds_any_bytes(world) % (64 * MIB)},
                {.selector = POOL_OF_EACH_NODE,
                 .min_bytes = deeds_any_bytes(world) % (64 * MIB),
                 .says_min = true,
                 .warm_bytes = deeds_any_bytes(world) % (64 * MIB),
                 .says_warm = true,
                 .return_seconds = input_byte(world->input) % 4,
                 .says_return = true},
        };
        struct settings settings = {.each_user = SETTINGS_USERS,
                                    .n_drain_seconds = 600,
                                    .n_pinned_bytes = 128 * MIB,
                                    .rules = rules,
                                    .n_rules = 2};
        uint8_t how = input_byte(world->input);

        if (limits_new(&settings.limits))
                return;
        settings.limits->client.max[how % LIMIT_N_KINDS] = deeds_any_bytes(world) >>
                                                           (how & 64 ? 20 : 0);
        settings.limits->tenant.max[how / 4 % LIMIT_N_KINDS] = deeds_any_bytes(world);
        if (how & 128)
                (void)limits_set_uid(settings.limits, 1000, LIMIT_DEVICE_BYTES,
                                     deeds_any_bytes(world));
        (void)server_apply_settings(world->server, &settings);
        limits_free(settings.limits);
}

static void add_taken(const struct allowance *allowance, unsigned kind, uint64_t *n,
                      uint64_t *n_most)
{
        uint64_t least = allowance->all->least[kind], n_own = allowance->n[kind];

        *n += n_own;
        *n_most += n_own < least ? n_own : least;
}

/* Of what is kept no user, nor container that root runs, has more than its least, so another one finds that. */
static void check_taken(const struct accounts *accounts)
{
        const struct allowances *all = &accounts->allowances;
        const struct account *account;
        const struct user *user;

        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++) {
                uint64_t n = 0, n_most = all->max[kind] - all->kept[kind];

                for (user = accounts->users; user; user = user->hh.next) {
                        add_taken(&user->allowance, kind, &n, &n_most);
                        for (account = user->accounts; account; account = account->hh.next) {
                                if (!account->own.parent)
                                        add_taken(&account->own, kind, &n, &n_most);
                        }
                }
                FUZZ_EXPECT(n == all->n[kind] && n <= n_most && n <= all->max[kind]);
        }
}

static void turn(struct world *world)
{
        scheduler_run_once(&world->server->scheduler);
        wakes_check(world->server);
        check_taken(&world->server->accounts);
        if (world->n_turns++ % N_TURNS_A_CHECK)
                return;
        policy_check(world->server->policy);
        event_history_check(world->server->history);
}

static void step(struct world *world)
{
        uint8_t how = input_byte(world->input);

        switch (how % 16) {
        case 0:
        case 1:
                work(world);
                break;
        case 2:
        case 3:
                turn(world);
                break;
        case 4:
                pass_time(world);
                break;
        case 5:
                trouble(world);
                break;
        case 6:
                apply(world);
                break;
        default:
                deeds_do(world);
                break;
        }
        /* Else it happens before the daemon's next turn, together with what follows. */
        if (how & 0x80)
                turn(world);
}

static void expect_nothing_charged(const struct server *server)
{
        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct pool_stats stats;

                FUZZ_EXPECT(policy_pool_stats(server->policy, i, &stats) == 0);
                FUZZ_EXPECT(stats.charged == 0 && stats.leased == 0 && stats.lingering == 0);
                FUZZ_EXPECT(stats.n_waiting == 0);
        }
}

/* Until no task has more to do. */
static void run(struct world *world)
{
        unsigned n = 0;

        do {
                FUZZ_EXPECT(n++ < N_TURNS_MAX);
                turn(world);
        } while (scheduler_has_work(&world->server->scheduler));
}

static void settle(struct world *world)
{
        for (unsigned i = 0; i < N_TURNS_OF_SETTLING || machine_n_jobs(); i++) {
                FUZZ_EXPECT(i < N_TURNS_MAX);
                for (unsigned pool = 0; pool < MACHINE_N_POOLS; pool++)
                        machine_work(pool, WORK_DONE);
                loop_pass(10);
                run(world);
        }
}

/* Everybody reads. */
static void serve_all(struct world *world)
{
        peers.send_fails = peers.watch_fails = 0;
        for (unsigned i = 0; i < N_TURNS_OF_READING; i++) {
                for (unsigned k = 0; k < N_PEERS; k++) {
                        peers.processes[k].reads = true;
                        peers.processes[k].n_unread = 0;
                }
                loop_pass(500);
                run(world);
        }
        wakes_expect_all_served(world->server);
}

/* Everybody leaves, one way or another. */
static void end_all(struct world *world)
{
        struct server *server = world->server;

        peers.send_fails = peers.watch_fails = 0;
        for (unsigned i = 0; i < N_PEERS; i++) {
                peers.processes[i].is_open = false;
                peers.processes[i].is_dead = true;
        }
        settle(world);
        policy_check(server->policy);
        FUZZ_EXPECT(LIST_EMPTY(&server->sessions) && accounts_are_unused(&server->accounts));
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++)
                FUZZ_EXPECT(server->accounts.allowances.n[kind] == 0);
        expect_nothing_charged(server);
}

/* Perhaps it ends already, or waits for what is held. */
static void stop(struct world *world)
{
        for (unsigned i = 0; i < 2 && !server_is_stopping(world->server); i++)
                loop_signal(SIGTERM);
        FUZZ_EXPECT(server_is_stopping(world->server));
        settle(world);
        expect_nothing_charged(world->server);
        server_free(world->server);
}

/* So few fds that peers that read nothing take all that is not kept. */
static void let_have_few(struct allowances *all)
{
        for (unsigned kind = 0; kind < ALLOWANCE_QUEUED_BYTES; kind++) {
                all->max[kind] = N_FEW_FDS;
                all->kept[kind] = N_FEW_FDS - N_FEW_SHARED;
        }
}

static void begin(struct world *world)
{
        static const enum canary_outcome canaries[CANARY_DEVICES_MAX];
        uint8_t how = input_byte(world->input);
        struct pool_rule rule = {.selector = POOL_OF_EACH_DEVICE,
                                 .ipc = how % 32 == 1 ? IPC_LEGACY : IPC_NOT_SAID,
                                 .warm_bytes = 30 * MIB,
                                 .says_warm = how % 4 == 2};
        struct settings settings = {.n_device_bytes = 40 * MIB,
                                    .n_pinned_bytes = 64 * MIB,
                                    .each_user = {.n_connections = how & 32 ? 4 : 1024},
                                    .says_user = how % 16 == 1,
                                    .user = 1000,
                                    .n_drain_seconds = how & 64 ? 600 : 0,
                                    .rules = &rule,
                                    .n_rules = 1};
        struct server_options options = {.canaries = canaries, .settings = &settings};

        machine_begin();
        peers_begin();
        epoll_begin();
        loop_begin();
        FUZZ_EXPECT(server_new(&options, &world->server) == 0);
        if (world->input->n % 4 == 3)
                let_have_few(&world->server->accounts.allowances);
        prewarming_begin(world->server);
        if (how % 8 == 2)
                world->server->pools[0].device.is_dirty = true;
}

/* Reached: a client was welcomed and got a block. */
enum fuzz_outcome fuzz_run(const uint8_t *bytes, size_t n_bytes)
{
        struct input input = {bytes, n_bytes};
        struct world world = {.input = &input};

        begin(&world);
        while (input.n && world.n_steps++ < N_STEPS_MAX && !server_is_stopping(world.server))
                step(&world);
        if (n_bytes % 16 > 7 && !server_is_stopping(world.server))
                serve_all(&world);
        if (n_bytes % 8 && !server_is_stopping(world.server))
                end_all(&world);
        stop(&world);
        machine_end();
        return peers.n_leased ? FUZZ_TAKEN : FUZZ_REFUSED;
}
