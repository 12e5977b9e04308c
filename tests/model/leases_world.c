/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/model/leases_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/policy/state/types.h"
#include "proto/board.h"

struct world *world;

void queue_put(struct queue *queue, struct message message)
{
        assert(queue->n < N_MESSAGES);
        queue->messages[queue->n++] = message;
}

struct message queue_take(struct queue *queue)
{
        struct message first = queue->messages[0];

        memmove(queue->messages, queue->messages + 1, --queue->n * sizeof(first));
        return first;
}

static void add_party(const struct world_kind *kind, unsigned i)
{
        struct party *party = &world->parties[i];
        int r;

        party->uid = kind->uids[i];
        party->n_asks_left = kind->n_asks[i];
        party->lies = i == 0 && kind->n_lies;
        r = policy_add_client(world->policy, &(struct tenant_key){.uid = party->uid},
                              &(struct tenant_key){.uid = party->uid}, N_SLOTS, party->words, party,
                              &party->client);
        assert(r == 0);
        (void)r;
}

void world_begin(const struct world_kind *kind)
{
        struct policy_pool pool = {.kind = POLICY_DEVICE,
                                   .max_bytes = kind->n_blocks * BLOCK_BYTES};
        uint32_t id;
        int r;

        world = calloc(1, sizeof(*world));
        world->kind = *kind;
        world->now_ns = 1;
        world->n_faults_left = kind->n_faults;
        world->n_revokes_left = kind->n_revokes;
        world->n_lies_left = kind->n_lies;
        world->n_cancels_left = kind->n_cancels;
        r = policy_new(&world->policy);
        assert(r == 0);
        r = policy_add_pool(world->policy, &pool, &id);
        assert(r == 0);
        (void)r;
        policy_serve_in_turns(world->policy);
        for (unsigned i = 0; i < kind->n_parties; i++)
                add_party(kind, i);
}

static bool is_of_daemon(const struct step *step)
{
        return step->kind >= STEP_TAKE;
}

static bool may(const struct step *step)
{
        return is_of_daemon(step) ? daemon_may(step) : client_may(step);
}

/* Steps that are not about a slot are listed for the first one. */
static bool has_slot(unsigned kind)
{
        return (kind >= STEP_USE && kind <= STEP_RETURN_MAPPED) ||
               (kind >= STEP_LIE && kind <= STEP_LIE_LAST) || kind == STEP_REVOKE ||
               kind == STEP_REVOKE_FROM_OTHER;
}

unsigned world_steps(struct step *steps)
{
        unsigned n = 0;

        for (unsigned kind = 0; kind < N_STEP_KINDS; kind++) {
                for (unsigned party = 0; party < world->kind.n_parties; party++) {
                        for (unsigned slot = 0; slot < (has_slot(kind) ? N_SLOTS : 1); slot++) {
                                struct step step = {(uint8_t)kind, (uint8_t)party, (uint8_t)slot,
                                                    0};

                                if (may(&step)) {
                                        assert(n < N_STEPS_MAX);
                                        steps[n++] = step;
                                }
                        }
                }
        }
        return n;
}

void world_step(const struct step *step)
{
        world->n_races = 0;
        if (is_of_daemon(step))
                daemon_step(step);
        else
                client_step(step);
}

const char *step_name(const struct step *step)
{
        static const char *const names[N_STEP_KINDS] = {
                [STEP_ASK] = "asks",
                [STEP_ASK_KNOWN] = "asks for what it maps",
                [STEP_CANCEL] = "cancels",
                [STEP_HEAR] = "hears what the daemon said",
                [STEP_USE] = "uses the block",
                [STEP_REST] = "uses it no more",
                [STEP_MARK] = "marks it idle",
                [STEP_TAKE_BACK] = "takes it back, or finds it revoked",
                [STEP_UNMAP] = "unmaps it",
                [STEP_SAY] = "says so",
                [STEP_RETURN_MAPPED] = "returns it, mapped",
                [STEP_LEAVE] = "ends its connection",
                [STEP_STOP] = "stops",
                [STEP_DIE] = "dies",
                [STEP_TAKE] = "is heard by the daemon",
                [STEP_SEE_DEATH] = "is seen to be dead",
                [STEP_CUT] = "is cut off",
                [STEP_REVOKE] = "has it revoked",
                [STEP_REVOKE_FROM_OTHER] = "has it revoked for another tenant",
                [STEP_TURN] = "(daemon) serves",
                [STEP_LOOK] = "(daemon) looks again",
                [STEP_WORK] = "(driver) works",
        };

        return names[step->kind] ? names[step->kind] : "lies";
}

bool tenant_lies(uint32_t uid)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (world->parties[i].lies && world->parties[i].uid == uid)
                        return true;
        }
        return false;
}

static const struct lease *find_lease(const struct client *client, uint64_t id)
{
        const struct lease *lease;

        TAILQ_FOREACH (lease, &client->leases, client_link) {
                if (lease->id == id)
                        return lease;
        }
        return NULL;
}

static const struct block *find_block(uint64_t id)
{
        const struct block *block;

        LIST_FOREACH (block, &world->policy->pools[0]->blocks, pool_link) {
                if (block->id == id)
                        return block;
        }
        return NULL;
}

/* Its lease is busy, for the daemon too; or the block has no owner any more. */
static void check_right(const struct party *party, uint32_t slot)
{
        const struct held *held = &party->held[slot];
        const struct block *block = find_block(held->block);
        const struct lease *lease;

        BREAK_IF(!block, "a block is used that the daemon has forgotten");
        if (!block)
                return;
        if (party->session != SESSION_READY) {
                BREAK_IF(block->state != BLOCK_RELEASING && block->state != BLOCK_LINGERING,
                         "a block has an owner that a client without a connection uses");
                return;
        }
        lease = find_lease(party->client, held->lease);
        BREAK_IF(!lease || lease->state != LEASE_BUSY || lease->block != block,
                 "a block is used without a lease");
        BREAK_IF(!board_is(&party->words[slot], held->lease, BOARD_BUSY),
                 "a block is used while its word does not say BUSY");
}

static void check_alone(const struct held *held)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                const struct party *other = &world->parties[i];

                for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                        const struct held *others = &other->held[slot];

                        BREAK_IF(others != held && others->used && others->block == held->block,
                                 "two use a block");
                }
        }
        BREAK_IF(!held->mapped, "a block is used that is not mapped");
}

static void check_slots(const struct party *party)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                BREAK_IF(party->client && !slot_set_is_taken(&party->client->slots, slot) &&
                                 party->words[slot],
                         "the word of a free slot is not 0");
        }
}

static void check_party(const struct party *party)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                if (!party->held[slot].used)
                        continue;
                check_right(party, slot);
                check_alone(&party->held[slot]);
        }
        check_slots(party);
}

static bool is_mapped_by(const struct party *party, uint64_t block)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                if (party->held[slot].mapped && party->held[slot].block == block)
                        return true;
        }
        for (unsigned i = 0; i < party->from_daemon.n; i++) {
                const struct message *message = &party->from_daemon.messages[i];

                if (message->kind == TELL_LEASED && message->block == block)
                        return true;
        }
        return false;
}

static bool is_mapped(uint64_t block)
{
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (!world->parties[i].lies && is_mapped_by(&world->parties[i], block))
                        return true;
        }
        return false;
}

/* What the driver has given out is no more than the pool may have, also when it is counted as the
 * driver counts: as long as anybody maps it. */
static void check_driver(void)
{
        uint64_t most = world->policy->last_block_id;
        unsigned n = 0;

        for (uint64_t id = 1; id <= most; id++) {
                const struct block *block = find_block(id);

                n += (block && block->backing) || is_mapped(id);
        }
        BREAK_IF(n > world->kind.n_blocks, "the driver has given out more than the pool may have");
}

static void check_blocks(void)
{
        const struct block *block;

        LIST_FOREACH (block, &world->policy->pools[0]->blocks, pool_link) {
                const struct made *made = block->backing;

                BREAK_IF(made && made->uid != block->holding->tenant->key.uid,
                         "a block has changed its tenant");
        }
}

void world_check(void)
{
        policy_check(world->policy);
        for (unsigned i = 0; i < world->kind.n_parties; i++) {
                if (!tenant_lies(world->parties[i].uid))
                        check_party(&world->parties[i]);
        }
        check_driver();
        check_blocks();
}
