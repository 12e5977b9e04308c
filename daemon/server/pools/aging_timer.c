/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/aging_timer.h"

#include "base/err.h"
#include "daemon/policy/aging.h"

/* Passes within the configured time, as long as the interval is within the bounds. */
#define PASSES          16
#define INTERVAL_MS_MIN UINT64_C(250)
#define INTERVAL_MS_MAX UINT64_C(5000)

static uint64_t interval_ms(uint64_t return_after_ns)
{
        uint64_t n_ms = return_after_ns / NS_PER_MS / PASSES;

        if (n_ms < INTERVAL_MS_MIN)
                return INTERVAL_MS_MIN;
        return n_ms < INTERVAL_MS_MAX ? n_ms : INTERVAL_MS_MAX;
}

void aging_timer_apply(struct server *server)
{
        server->aging.interval_ms = INTERVAL_MS_MAX;
        for (uint32_t i = 0; i < server->n_pools; i++) {
                struct pool_stock stock = server->pools[i].stock;
                uint64_t n_ms = interval_ms(stock.return_after_ns);
                uint64_t n_late_ns = 2 * n_ms * NS_PER_MS;

                /* There clients close memory only when they lack some. */
                if (server->pools[i].row.properties & PROTO_POOL_LEGACY)
                        continue;
                (void)policy_set_pool_keep(
                        server->policy, i, stock.keep_bytes,
                        stock.return_after_ns > n_late_ns ? stock.return_after_ns - n_late_ns : 0);
                if (n_ms < server->aging.interval_ms)
                        server->aging.interval_ms = n_ms;
        }
        /* Where the next pass is due earlier than that, it stays so: else frequent changes would put it off for ever. */
        if (uv_timer_get_due_in(&server->aging.timer) > server->aging.interval_ms)
                (void)uv_timer_stop(&server->aging.timer);
        aging_timer_watch(server);
}

/* The node pays. */
static void look_at_some(struct task *task)
{
        struct server *server = CONTAINER_OF(task, struct server, aging.task);

        if (policy_age(server->policy, PART_ITEMS, server_now_ns(server)))
                payer_put(&server->scheduler.node, task);
        else
                aging_timer_watch(server);
        server_execute(server);
}

static void on_pass(uv_timer_t *timer)
{
        struct server *server = CONTAINER_OF(timer, struct server, aging.timer);

        payer_put(&server->scheduler.node, &server->aging.task);
}

int aging_timer_open(struct server *server)
{
        int r = uv_timer_init(&server->loop, &server->aging.timer);

        server->aging.task.step = look_at_some;
        if (!r)
                aging_timer_apply(server);
        return r;
}

void aging_timer_watch(struct server *server)
{
        uv_timer_t *timer = &server->aging.timer;

        if (!server->stopping && !uv_is_active((uv_handle_t *)timer) && !server->aging.task.payer &&
            policy_ages(server->policy))
                (void)uv_timer_start(timer, on_pass, server->aging.interval_ms, 0);
}
