/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/request_walk.h"

#include "base/err.h"

static void end(struct walk *walk)
{
        struct session *asker = walk->asker;

        payer_take_out(&walk->task);
        LIST_REMOVE(walk, link);
        walk->free(walk);
        if (LIST_EMPTY(&asker->walks))
                transport_go_on(&asker->transport);
}

/* Returns whether parts are left. A short walk is over in one step. One that has rested rests after each part, too: the
 * last rows of a list and its reply together took longer than a step may. */
static bool go_on(struct walk *walk)
{
        numbered_go_on(&walk->place, PART_ITEMS);
        do {
                if ((*walk->parts)(walk))
                        return true;
                walk->parts++;
                walk->place.next = 0;
        } while (*walk->parts && !walk->has_rested);
        return *walk->parts;
}

static void step(struct task *task)
{
        struct walk *walk = CONTAINER_OF(task, struct walk, task);
        struct session *asker = walk->asker;

        if (go_on(walk)) {
                walk->has_rested = true;
                payer_put(asker->transport.owner.payer, task);
        } else {
                end(walk);
        }
        server_execute(asker->server);
}

void walk_begin(struct session *asker, const struct frame *request, struct walk *take_walk,
                bool (*const *parts)(struct walk *walk), void (*free)(struct walk *walk))
{
        take_walk->task = (struct task){.step = step};
        take_walk->asker = asker;
        take_walk->request = *request;
        take_walk->parts = parts;
        take_walk->place = (struct numbered_walk){.next = 0};
        take_walk->free = free;
        LIST_INSERT_HEAD(&asker->walks, take_walk, link);
        transport_wait(&asker->transport);
        step(&take_walk->task);
}

struct session *walk_next_session(struct walk *walk)
{
        return numbered_next(&walk->asker->server->sessions_by_number, &walk->place);
}

bool walk_has_more_sessions(const struct walk *walk)
{
        return !numbered_is_over(&walk->asker->server->sessions_by_number, &walk->place);
}

void walk_forget_all(struct session *session)
{
        while (!LIST_EMPTY(&session->walks))
                end(LIST_FIRST(&session->walks));
}
