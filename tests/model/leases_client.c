/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the protocol, one step at a time: those that the library makes, and those of a client that
 * knows more of the protocol than the library. */
#include "proto/board.h"
#include "tests/model/leases_world.h"

/* Whether its words are known to it: not after the end of its connection. */
static bool has_words(const struct party *party)
{
        return !party->left;
}

static bool may_send(const struct party *party)
{
        return !party->left && party->to_daemon.n < N_SENT_MAX;
}

static void send(struct party *party, enum message_kind kind)
{
        queue_put(&party->to_daemon, (struct message){.kind = kind});
}

static void send_of(struct party *party, enum message_kind kind, const struct held *held)
{
        queue_put(&party->to_daemon,
                  (struct message){.kind = kind, .lease = held->lease, .block = held->block});
}

static bool is_known_to_be_over(const struct held *held)
{
        return held->state == HELD_REVOKED || held->state == HELD_RETURNED ||
               held->state == HELD_IDLE;
}

/* The lease that the block is mapped for, and that is over; or NULL. */
static struct held *find_mapped(struct party *party, uint64_t block)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                struct held *held = &party->held[slot];

                if (held->block == block && held->mapped && is_known_to_be_over(held))
                        return held;
        }
        return NULL;
}

static void hear_known(struct party *party, const struct message *message)
{
        struct held *held = &party->held[message->slot];
        struct held *old = find_mapped(party, message->block);

        BREAK_IF(party_is_honest(party) && held->state != HELD_NONE,
                 "a slot is used again before its lease was said to be over");
        *held = (struct held){.lease = message->lease, .block = message->block};
        if (!old && world->kind.mutant != MUTANT_KNOWN_UNMAPPED) {
                held->state = HELD_SAY_RETURN;
                return;
        }
        held->state = HELD_BUSY;
        if (!old)
                return;
        BREAK_IF(party_is_honest(party) && old->state == HELD_IDLE &&
                         board_is(&party->words[old - party->held], old->lease, BOARD_IDLE),
                 "a block is known that is in an idle lease");
        held->mapped = true;
        *old = (struct held){.state = HELD_SAY_UNMAPPED, .lease = old->lease, .block = old->block};
        if (world->kind.mutant == MUTANT_KNOWN_FORGETS)
                old->state = HELD_NONE;
}

static void hear_leased(struct party *party, const struct message *message)
{
        BREAK_IF(party_is_honest(party) && party->held[message->slot].state != HELD_NONE,
                 "a slot is used again before its lease was said to be over");
        party->held[message->slot] = (struct held){.state = HELD_BUSY,
                                                   .mapped = true,
                                                   .lease = message->lease,
                                                   .block = message->block};
}

static void hear_notice(struct party *party, const struct message *message)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                struct held *held = &party->held[slot];

                if (held->state == HELD_IDLE && held->lease == message->lease)
                        held->state = HELD_REVOKED;
                else
                        BREAK_IF(party_is_honest(party) && held->state == HELD_BUSY &&
                                         held->lease == message->lease,
                                 "a lease that is busy is to be unmapped");
        }
}

static void hear(struct party *party)
{
        struct message message = queue_take(&party->from_daemon);

        if (message.kind != TELL_NOTICE)
                party->asking = false;
        if (message.kind == TELL_LEASED)
                hear_leased(party, &message);
        else if (message.kind == TELL_KNOWN)
                hear_known(party, &message);
        else if (message.kind == TELL_NOTICE)
                hear_notice(party, &message);
        else if (message.kind == TELL_END)
                party->left = true;
}

static void mark(struct party *party, uint32_t slot)
{
        struct held *held = &party->held[slot];

        if (board_step(&party->words[slot], held->lease, BOARD_BUSY, BOARD_IDLE))
                held->state = HELD_IDLE;
        else
                BREAK_IF(party_is_honest(party), "a busy lease cannot be marked");
}

void party_take_back(struct party *party, uint32_t slot)
{
        struct held *held = &party->held[slot];
        bool taken = has_words(party) &&
                     board_step(&party->words[slot], held->lease, BOARD_IDLE, BOARD_BUSY);

        taken = taken || world->kind.mutant == MUTANT_USES_REVOKED;
        held->state = taken ? HELD_BUSY : HELD_REVOKED;
        held->used = taken;
}

static void unmap(struct held *held)
{
        held->mapped = held->used = false;
        held->state = held->state == HELD_BUSY ? HELD_SAY_RETURN : HELD_SAY_UNMAPPED;
}

static void return_mapped(struct party *party, struct held *held)
{
        send_of(party, SAY_RETURN_MAPPED, held);
        held->state = HELD_RETURNED;
}

/* A client that has left sends nothing. */
static void say(struct party *party, uint32_t slot)
{
        struct held *held = &party->held[slot];

        if (!party->left)
                send_of(party, held->state == HELD_SAY_RETURN ? SAY_RETURN : SAY_UNMAPPED, held);
        *held = (struct held){.state = HELD_NONE};
}

/* Something that it had is mapped still. */
static bool maps_anything(const struct party *party)
{
        for (uint32_t slot = 0; slot < N_SLOTS; slot++) {
                enum held_state state = party->held[slot].state;

                if (party->held[slot].mapped && (state == HELD_REVOKED || state == HELD_RETURNED))
                        return true;
        }
        return false;
}

static void leave(struct party *party)
{
        party->left = true;
        party->asking = false;
        party->from_daemon.n = 0;
        if (party->session != SESSION_LEFT && party->session != SESSION_OVER)
                send(party, SAY_END);
}

void party_die(struct party *party)
{
        if (!party->left)
                leave(party);
        party->life = LIFE_OVER;
        for (uint32_t slot = 0; slot < N_SLOTS; slot++)
                party->held[slot] = (struct held){.state = HELD_NONE};
}

/* A few words that are not what they should be; the last lies are in messages. */
static void lie(struct party *party, uint32_t slot, unsigned which)
{
        uint64_t lease = party->held[slot].lease;
        const uint64_t words[] = {
                0,
                board_word(lease, BOARD_BUSY),
                board_word(lease, BOARD_IDLE),
                board_word(lease, BOARD_REVOKED),
                board_word(lease + 1, BOARD_IDLE),
                UINT64_MAX,
        };

        world->n_lies_left--;
        if (which < ARRAY_SIZE(words))
                atomic_store(&party->words[slot], words[which]);
        else
                send_of(party, SAY_UNMAPPED, &party->held[slot]);
}

static bool may_lie(const struct party *party, const struct step *step)
{
        if (!party->lies || !world->n_lies_left || !party->held[step->slot].lease)
                return false;
        return step->kind != STEP_LIE_LAST || may_send(party);
}

static bool may_do_with(const struct party *party, const struct held *held, const struct step *step)
{
        bool early = world->kind.mutant == MUTANT_IDLE_WHILE_USED;
        bool is_unused = held->state == HELD_BUSY && held->was_used && !held->used;

        switch (step->kind) {
        case STEP_USE:
                return held->state == HELD_BUSY && !held->was_used;
        case STEP_REST:
                return held->used;
        case STEP_MARK:
                return has_words(party) && (is_unused || (early && held->used));
        case STEP_TAKE_BACK:
                return held->state == HELD_IDLE && !held->used;
        case STEP_UNMAP:
                return is_unused || held->state == HELD_REVOKED || held->state == HELD_RETURNED;
        case STEP_SAY:
                return (held->state == HELD_SAY_RETURN || held->state == HELD_SAY_UNMAPPED) &&
                       (party->left || may_send(party));
        case STEP_RETURN_MAPPED:
                return is_unused && may_send(party);
        default:
                return false;
        }
}

bool client_may(const struct step *step)
{
        const struct party *party = &world->parties[step->party];

        if (step->kind == STEP_DIE)
                return party->life != LIFE_OVER && world->n_faults_left;
        if (party->life != LIFE_RUNS)
                return false;
        if (step->kind >= STEP_LIE && step->kind <= STEP_LIE_LAST)
                return may_lie(party, step);
        if (step->kind >= STEP_USE && step->kind <= STEP_RETURN_MAPPED)
                return may_do_with(party, &party->held[step->slot], step);
        if (step->kind == STEP_HEAR)
                return !party->left && party->from_daemon.n;
        if (step->kind == STEP_ASK_KNOWN && !(world->kind.only_known && maps_anything(party)))
                return false;
        if (step->kind == STEP_ASK || step->kind == STEP_ASK_KNOWN)
                return may_send(party) && !party->asking && party->n_asks_left;
        if (step->kind == STEP_CANCEL)
                return may_send(party) && party->asking && world->n_cancels_left;
        return world->n_faults_left && (step->kind == STEP_STOP || !party->left);
}

static void step_with(struct party *party, const struct step *step)
{
        struct held *held = &party->held[step->slot];

        if (step->kind == STEP_USE)
                held->used = held->was_used = true;
        else if (step->kind == STEP_REST)
                held->used = false;
        else if (step->kind == STEP_MARK)
                mark(party, step->slot);
        else if (step->kind == STEP_TAKE_BACK)
                party_take_back(party, step->slot);
        else if (step->kind == STEP_UNMAP)
                unmap(held);
        else if (step->kind == STEP_SAY)
                say(party, step->slot);
        else
                return_mapped(party, held);
}

void client_step(const struct step *step)
{
        struct party *party = &world->parties[step->party];
        bool is_fault = step->kind == STEP_LEAVE || step->kind == STEP_STOP ||
                        step->kind == STEP_DIE;

        world->n_faults_left -= is_fault;
        if (step->kind >= STEP_LIE && step->kind <= STEP_LIE_LAST) {
                lie(party, step->slot, step->kind - STEP_LIE);
        } else if (step->kind == STEP_ASK || step->kind == STEP_ASK_KNOWN) {
                party->asking = true;
                party->n_asks_left--;
                send(party, step->kind == STEP_ASK ? SAY_LEASE : SAY_LEASE_KNOWN);
        } else if (step->kind == STEP_CANCEL) {
                world->n_cancels_left--;
                send(party, SAY_CANCEL);
        } else if (step->kind == STEP_HEAR) {
                hear(party);
        } else if (step->kind == STEP_LEAVE) {
                leave(party);
        } else if (step->kind == STEP_STOP) {
                party->life = LIFE_STOPPED;
        } else if (step->kind == STEP_DIE) {
                party_die(party);
        } else {
                step_with(party, step);
        }
}
