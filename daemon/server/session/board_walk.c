/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/session/board_walk.h"

#include <stdlib.h>

#include "base/err.h"
#include "gpumem.h"

/* Boards that are read in one step. */
#define BOARDS_A_STEP 64

static void end(struct session *asker)
{
        struct board_walk *walk = steal_ptr(asker->board_walk);

        if (!walk)
                return;
        scheduler_take_out(&walk->task);
        LIST_REMOVE(walk, link);
        free(walk);
        asker->transport.is_waiting = false;
}

/* Returns whether boards are left. */
static bool add_some(struct board_walk *walk)
{
        for (unsigned n = 0; walk->at && n < BOARDS_A_STEP; n++) {
                if (session_has_client(walk->at))
                        walk->add(walk->at, walk->totals);
                walk->at = LIST_NEXT(walk->at, link);
        }
        return walk->at;
}

static void go_on(struct board_walk *walk)
{
        struct session *asker = walk->asker;

        if (add_some(walk)) {
                scheduler_put(&asker->server->scheduler, asker->transport.owner.payer, &walk->task);
                return;
        }
        walk->answer(asker, &walk->request);
        end(asker);
        transport_watch(&asker->transport);
}

static void step(struct task *task)
{
        go_on(CONTAINER_OF(task, struct board_walk, task));
}

void board_walk_begin(struct session *asker, const struct frame *request,
                      void (*add)(const struct session *session, struct board_total *totals),
                      void (*answer)(struct session *asker, const struct frame *request))
{
        struct server *server = asker->server;
        struct board_walk *walk = calloc(1,
                                         sizeof(*walk) + server->n_pools * sizeof(walk->totals[0]));

        if (!walk) {
                session_send_error(asker, request->serial, GPUMEM_E_TOO_MANY,
                                   "out of memory in gpumemd");
                return;
        }
        walk->task.step = step;
        walk->asker = asker;
        walk->at = LIST_FIRST(&server->sessions);
        walk->request = *request;
        walk->add = add;
        walk->answer = answer;
        asker->board_walk = walk;
        asker->transport.is_waiting = true;
        LIST_INSERT_HEAD(&server->board_walks, walk, link);
        go_on(walk);
}

void board_walk_forget(struct session *session)
{
        struct board_walk *walk;

        end(session);
        LIST_FOREACH (walk, &session->server->board_walks, link) {
                if (walk->at == session)
                        walk->at = LIST_NEXT(session, link);
        }
}
