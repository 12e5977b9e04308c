/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon, one event at a time: as daemon/server does it, without sockets. */
#include <limits.h>
#include <string.h>

#include "daemon/policy/objects/block.h"
#include "daemon/policy/objects/lease.h"
#include "daemon/policy/state/types.h"
#include "proto/board.h"
#include "tests/model/leases_world.h"

/* A wait that does not end by itself. */
#define FAR_NS (UINT64_MAX - 1)

/* Between looks; long enough for leases to be revoked from the same tenant again. */
#define LOOK_NS UINT64_C(200000000)

static struct pool *pool(void)
{
        return world->policy->pools[0];
}

static struct made *made_of(const struct block *block)
{
        return block_backing(block);
}

static void forget_what_is_gone(void)
{
        unsigned n = 0;

        /* The policy's pointers stay what they are: only the last ones are forgotten. */
        for (unsigned i = 0; i < world->n_made; i++)
                n = world->made[i].there ? i + 1 : n;
        world->n_made = n;
}

static struct made *make(const struct block *block)
{
        struct made *made = world->made;

        while (made->there)
                made++;
        *made = (struct made){
                .block = block_id(block), .uid = block->holding->tenant->key.uid, .there = true};
        if ((unsigned)(made - world->made) == world->n_made)
                world->n_made++;
        return made;
}

static void add_job(bool creates, struct block *block)
{
        world->jobs[world->n_jobs++] = (struct job){creates, block};
}

/* A client that has left does not read what it is sent. */
static void send(struct party *party, struct message message)
{
        if (!party->left)
                queue_put(&party->from_daemon, message);
}

/* As far as the daemon has been told. */
static bool may_map(const struct party *party, uint64_t block)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                const struct held *held = &party->held[slot];

                if (held->block == block && (held->mapped || held->state == HELD_SAY_UNMAPPED))
                        return true;
        }
        for (unsigned i = 0; i < party->to_daemon.n; i++) {
                if (party->to_daemon.messages[i].block == block)
                        return true;
        }
        return false;
}

static void grant(const struct action *action)
{
        struct party *party = client_owner(action->client);
        const struct made *made = made_of(action->block);

        BREAK_IF(!made || !made->there, "a block is granted that the driver has not made");
        BREAK_IF(made && made->uid != party->uid,
                 "a block is granted that another tenant wrote to");
        BREAK_IF(action->known && party_is_honest(party) && party->life == LIFE_RUNS &&
                         !party->left && !may_map(party, block_id(action->block)),
                 "a block is said to be known that the client has never mapped");
        send(party, (struct message){
                            .kind = action->known ? TELL_KNOWN : TELL_LEASED,
                            .slot = lease_slot(action->lease),
                            .lease = lease_id(action->lease),
                            .block = block_id(action->block),
                    });
}

static void tell(const struct action *action, enum message_kind kind)
{
        struct party *party = client_owner(action->client);
        struct message message = {.kind = kind};

        if (kind == TELL_NOTICE)
                message.lease = lease_id(action->lease);
        send(party, message);
}

static void carry_all_out(void)
{
        struct action action = policy_next_action(world->policy);

        for (; action.kind != ACTION_NONE; action = policy_next_action(world->policy)) {
                if (action.kind == ACTION_CREATE)
                        add_job(true, action.block);
                else if (action.kind == ACTION_RELEASE)
                        add_job(false, action.block);
                else if (action.kind == ACTION_GRANT)
                        grant(&action);
                else if (action.kind == ACTION_REFUSE)
                        tell(&action, TELL_REFUSED);
                else if (action.kind == ACTION_NOTICE)
                        tell(&action, TELL_NOTICE);
        }
}

static void see_death(struct party *party)
{
        (void)policy_client_dead(world->policy, party->client, world->now_ns);
        party->client = NULL;
        party->session = SESSION_OVER;
}

static void end_connection(struct party *party)
{
        (void)policy_client_eof(world->policy, party->client, world->now_ns);
        party->to_daemon.n = 0;
        if (party->session == SESSION_ORPHANED) {
                party->client = NULL;
                party->session = SESSION_OVER;
        } else if (!client_maps_anything(party->client)) {
                see_death(party);
        } else {
                party->session = SESSION_LEFT;
        }
}

static void end_process(struct party *party)
{
        if (party->session == SESSION_LEFT) {
                see_death(party);
                return;
        }
        (void)policy_client_dead(world->policy, party->client, world->now_ns);
        party->session = SESSION_ORPHANED;
}

static void cut(struct party *party)
{
        world->n_faults_left--;
        end_connection(party);
        send(party, (struct message){.kind = TELL_END});
}

static void take_lease(struct party *party, bool only_known)
{
        struct policy_ask ask = {.n_bytes = BLOCK_BYTES,
                                 .serial = 1,
                                 .known_will_do = world->kind.known_will_do,
                                 .only_known = only_known,
                                 .deadline_ns = only_known ? 0 : FAR_NS};

        policy_lease(world->policy, party->client, &ask, world->now_ns);
}

/* What its honest client says is so. */
static void expect_ok(const struct party *party, int result)
{
        BREAK_IF(result && party_is_honest(party), "the daemon contradicts an honest client");
}

static void take(struct party *party)
{
        struct message message = queue_take(&party->to_daemon);

        /* Only its end is still of interest. */
        if (party->session == SESSION_ORPHANED)
                message.kind = SAY_END;
        if (message.kind == SAY_LEASE || message.kind == SAY_LEASE_KNOWN)
                take_lease(party, message.kind == SAY_LEASE_KNOWN);
        else if (message.kind == SAY_CANCEL)
                policy_cancel(world->policy, party->client, 1, world->now_ns);
        else if (message.kind == SAY_RETURN)
                expect_ok(party, policy_return(world->policy, party->client, message.lease,
                                               RETURN_UNMAPPED, world->now_ns));
        else if (message.kind == SAY_RETURN_MAPPED)
                expect_ok(party, policy_return(world->policy, party->client, message.lease,
                                               RETURN_MAPPED, world->now_ns));
        else if (message.kind == SAY_UNMAPPED)
                expect_ok(party, policy_unmapped(world->policy, party->client, message.lease,
                                                 world->now_ns));
        else
                end_connection(party);
}

/* The lease of the slot, if it may be revoked now. */
static struct lease *find_idle(struct party *party, uint32_t slot)
{
        struct lease *lease;

        if (!party->client)
                return NULL;
        TAILQ_FOREACH (lease, &party->client->leases, client_link) {
                if (lease->slot == slot && lease->state == LEASE_BUSY && lease_is_idle(lease))
                        return lease;
        }
        return NULL;
}

/* As a look for idle leases does it that a client outside of this world has caused. */
static void revoke(struct party *party, const struct step *step)
{
        struct lease *lease = find_idle(party, step->slot);
        struct block *block = lease->block;

        world->n_revokes_left--;
        pool()->unserved = true;
        if (!lease_revoke(lease))
                return;
        if (step->kind == STEP_REVOKE)
                block_return_to_cache(block);
        else
                block_release(block);
}

static void work(void)
{
        struct job job = world->jobs[0];
        struct made *made;

        memmove(world->jobs, world->jobs + 1, --world->n_jobs * sizeof(job));
        if (job.creates) {
                made = make(job.block);
                policy_created(world->policy, job.block, 0, made, world->now_ns);
        } else {
                made_of(job.block)->there = false;
                policy_released(world->policy, job.block, world->now_ns);
                forget_what_is_gone();
        }
}

bool daemon_may(const struct step *step)
{
        struct party *party = &world->parties[step->party];
        bool is_first = !step->party && !step->slot;

        switch (step->kind) {
        case STEP_TAKE:
                return (party->session == SESSION_READY || party->session == SESSION_ORPHANED) &&
                       party->to_daemon.n;
        case STEP_SEE_DEATH:
                return party->life == LIFE_OVER &&
                       (party->session == SESSION_READY || party->session == SESSION_LEFT);
        case STEP_CUT:
                return world->n_faults_left && party->session == SESSION_READY;
        case STEP_REVOKE:
        case STEP_REVOKE_FROM_OTHER:
                return world->n_revokes_left && find_idle(party, step->slot);
        case STEP_TURN:
                return is_first && pool()->unserved;
        case STEP_LOOK:
                return is_first && !pool()->unserved &&
                       policy_next_deadline(world->policy) != UINT64_MAX;
        case STEP_WORK:
                return is_first && world->n_jobs;
        default:
                return false;
        }
}

void daemon_step(const struct step *step)
{
        struct party *party = &world->parties[step->party];

        world->race = step->race;
        world->n_races = 0;
        if (step->kind == STEP_TAKE)
                take(party);
        else if (step->kind == STEP_SEE_DEATH)
                end_process(party);
        else if (step->kind == STEP_CUT)
                cut(party);
        else if (step->kind == STEP_REVOKE || step->kind == STEP_REVOKE_FROM_OTHER)
                revoke(party, step);
        else if (step->kind == STEP_WORK)
                work();
        if (step->kind == STEP_LOOK) {
                world->now_ns += LOOK_NS;
                policy_expire(world->policy, world->now_ns);
        }
        if (step->kind == STEP_LOOK || step->kind == STEP_TURN)
                (void)policy_serve(world->policy, UINT_MAX, world->now_ns);
        carry_all_out();
}
