/* SPDX-License-Identifier: Apache-2.0 */
/* From any state on, all memory can come free: those who run finish what they do and want nothing more; what those who
 * stand still hold comes free when they end. */
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/scheduling/revoke_idle.h"
#include "daemon/policy/state/types.h"
#include "tests/model/leases_world.h"

/* More than any state needs: no step is made for ever. */
#define N_STEPS_OF_REST 1000

/* One lease may be revoked from another tenant at each. */
#define N_LOOKS_OF_REST 3

/* Whether those who run take back what they have marked, and so see what was revoked; or wait to be told. */
enum rest { REST_TOLD, REST_LOOKING };

/* What brings a state nearer to its end. No lease is marked any more. */
static bool is_of_rest(const struct step *step, enum rest rest)
{
        switch (step->kind) {
        case STEP_HEAR:
        case STEP_USE:
        case STEP_REST:
        case STEP_UNMAP:
        case STEP_SAY:
        case STEP_TAKE:
        case STEP_SEE_DEATH:
        case STEP_TURN:
        case STEP_WORK:
                return true;
        case STEP_TAKE_BACK:
                return rest == REST_LOOKING;
        default:
                return false;
        }
}

static bool find_step(enum rest rest, struct step *ret_step)
{
        struct step steps[N_STEPS_MAX];
        unsigned n = world_steps(steps);

        for (unsigned i = 0; i < n; i++) {
                if (is_of_rest(&steps[i], rest)) {
                        *ret_step = steps[i];
                        return true;
                }
        }
        return false;
}

static void come_to_rest(enum rest rest)
{
        struct step look = {.kind = STEP_LOOK};
        unsigned n_looks = 0, n = 0;
        struct step step;

        while (n++ < N_STEPS_OF_REST && !world->broken) {
                if (find_step(rest, &step)) {
                        world_step(&step);
                        world_check();
                } else if (n_looks++ < N_LOOKS_OF_REST && daemon_may(&look)) {
                        world_step(&look);
                } else {
                        return;
                }
        }
        BREAK_IF(!world->broken, "it does not come to rest");
}

static bool stands_still(const struct party *party)
{
        return party->life == LIFE_STOPPED || party->lies ||
               (party->life == LIFE_RUNS && (party->left || party->session != SESSION_READY));
}

static bool holds_anything(const struct party *party)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                if (party->held[slot].state != HELD_NONE)
                        return true;
        }
        return party->asking;
}

/* An honest one that runs has given everything back, and waits for nothing unless others are in its way. */
static void check_rested(const struct party *party, bool alone)
{
        if (stands_still(party) || party->life != LIFE_RUNS)
                return;
        BREAK_IF(alone && party->asking, "a request waits for ever");
        BREAK_IF(alone && holds_anything(party), "a lease cannot be given back");
        BREAK_IF(party->client && !party->asking && client_maps_anything(party->client),
                 "the daemon believes that a client maps what it does not");
        BREAK_IF(party->client && !party->asking && client_charged(party->client, 0),
                 "a client is charged for what it does not have");
}

static bool all_run(void)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (stands_still(&world->parties[i]))
                        return false;
        }
        return true;
}

/* Unused memory: leases that are not busy, blocks that are in none. */
static unsigned count_obtainable(const struct party *asker)
{
        const struct pool *pool = world->policy->pools[0];
        uint64_t n_bytes = pool->settings.max_bytes - totals_reserved(&pool->totals) +
                           pool->totals.evictable + pool->totals.incoming;

        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                const struct client *client = world->parties[i].client;
                struct lease *lease;

                if (!client || client->tenant != asker->client->tenant)
                        continue;
                TAILQ_FOREACH (lease, &client->leases, client_link)
                        n_bytes += lease_is_idle(lease) ? BLOCK_BYTES : 0;
        }
        return (unsigned)(n_bytes / BLOCK_BYTES);
}

/* One that runs gets what one of its tenant that stands still does not use; at once, but for what was taken from itself
 * just now. */
static void check_obtainable(struct party *party)
{
        struct policy_ask ask = {.n_bytes = BLOCK_BYTES, .deadline_ns = UINT64_MAX - 1};
        unsigned n = count_obtainable(party);
        struct step step;

        world->now_ns += REVOKE_IDLE_BACK_NS;
        for (unsigned i = 0; i < n && i < N_SLOTS - 1; i++) {
                ask.serial = i + 1;
                policy_lease(world->policy, party->client, &ask, world->now_ns);
        }
        while (!world->broken && find_step(REST_LOOKING, &step) && step.kind >= STEP_TAKE)
                world_step(&step);
        while (daemon_may(&(struct step){.kind = STEP_WORK}) ||
               daemon_may(&(struct step){.kind = STEP_TURN})) {
                step = (struct step){.kind = world->n_jobs ? STEP_WORK : STEP_TURN};
                world_step(&step);
        }
        BREAK_IF(policy_next_deadline(world->policy) != UINT64_MAX,
                 "unused memory cannot be allocated");
}

static void end_all(void)
{
        struct step step;

        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (world->parties[i].life != LIFE_OVER)
                        party_die(&world->parties[i]);
        }
        while (!world->broken && find_step(REST_LOOKING, &step))
                world_step(&step);
}

static void check_nothing_left(void)
{
        struct pool_stats stats;

        (void)policy_pool_stats(world->policy, 0, &stats);
        BREAK_IF(stats.charged || stats.leased || stats.lingering,
                 "memory is held without a client");
        policy_shut_down(world->policy);
        world->policy->pools[0]->unserved = true;
        come_to_rest(REST_LOOKING);
        (void)policy_pool_stats(world->policy, 0, &stats);
        BREAK_IF(stats.reserved || stats.n_blocks, "memory has leaked");
        for (unsigned i = 0; i < N_MADE; i++)
                BREAK_IF(world->made[i].there, "the driver's memory has leaked");
}

static bool nobody_asks(void)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (world->parties[i].asking)
                        return false;
        }
        return true;
}

void world_rest(void)
{
        bool alone = all_run();
        struct party *runs = NULL;

        come_to_rest(REST_TOLD);
        BREAK_IF(alone && !nobody_asks(), "a request waits for what is idle");
        come_to_rest(REST_LOOKING);
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                struct party *party = &world->parties[i];

                check_rested(party, alone);
                if (party->life == LIFE_RUNS && party->session == SESSION_READY && !party->left &&
                    !tenant_lies(party->uid))
                        runs = party;
        }
        if (runs && nobody_asks())
                check_obtainable(runs);
        end_all();
        world_check();
        check_nothing_left();
}
