/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/what_stays.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "ctl/query/node_state.h"
#include "gpumem.h"

const char *stay_name(enum stay_kind kind)
{
        static const char *const names[STAY_N_KINDS] = {
                [STAY_REGISTERED] = "registered",
                [STAY_MAPPED] = "mapped",
                [STAY_IDLE] = "idle",
                [STAY_LEFT] = "left",
                [STAY_ORPHANED] = "orphaned",
                [STAY_UNCHARGED] = "stuck",
                [STAY_DECLARED] = "declared",
                [STAY_HELD] = "held",
        };

        return names[kind];
}

/* What stands before and after the bytes, and after them where a stopped process can do nothing; NULL: it need not. */
static const struct {
        const char *before, *after, *if_stopped;
} words[STAY_N_KINDS] = {
        [STAY_REGISTERED] = {"keeps",
                             "of pinned memory registered until it calls gpumem_flush or ends",
                             "of pinned memory registered"},
        [STAY_MAPPED] = {"keeps", "mapped until it runs again, calls gpumem_flush or ends",
                         "mapped"},
        [STAY_IDLE] = {"keeps", "leased that it does not use: free-all again gives it back", NULL},
        [STAY_LEFT] = {"has closed its connection and may keep", "mapped until it ends", NULL},
        [STAY_ORPHANED] = {"has ended; its child keeps", "until the child ends", NULL},
        [STAY_DECLARED] = {"holds", "of an earlier gpumemd until it frees that or ends",
                           "of an earlier gpumemd"},
        [STAY_HELD] = {"holds", "in its leases", "in its leases"},
};

/* Its pid is 0 in a PID namespace beside gpumemd's. */
static void holder_text(const struct stay *stay, char text[static STAY_TEXT_MAX / 2])
{
        if (stay->pid)
                (void)snprintf(text, STAY_TEXT_MAX / 2, "%s (process %" PRIu32 ", uid %" PRIu32 ")",
                               *stay->program ? stay->program : "?", stay->pid, stay->uid);
        else
                (void)snprintf(text, STAY_TEXT_MAX / 2,
                               "a process whose pid gpumemd does not see (uid %" PRIu32 ")",
                               stay->uid);
}

/* The rest is free in the process, between allocations, or attached while its owner has freed it. */
static void allocated_text(const struct stay *stay, char text[static STAY_TEXT_MAX / 2])
{
        char size[SIZE_TEXT_MAX];

        *text = '\0';
        if (stay->kind == STAY_HELD && stay->n_allocated_bytes < stay->n_bytes)
                (void)snprintf(text, STAY_TEXT_MAX / 2, ", %s of it in allocations%s",
                               size_format(stay->n_allocated_bytes, size),
                               stay->is_stopped ? ""
                                                : ": gpumem_flush there returns what is empty, "
                                                  "not what is attached");
}

void stay_text(const struct stay *stay, char text[static STAY_TEXT_MAX])
{
        char size[SIZE_TEXT_MAX], allocated[STAY_TEXT_MAX / 2], stopped[64] = "";
        char holder[STAY_TEXT_MAX / 2];
        const char *after = words[stay->kind].after;

        (void)size_format(stay->n_bytes, size);
        holder_text(stay, holder);
        allocated_text(stay, allocated);
        if (stay->is_stopped && words[stay->kind].if_stopped) {
                after = words[stay->kind].if_stopped;
                (void)snprintf(stopped, sizeof(stopped),
                               "; it is stopped: kill -CONT %" PRIu32 ", or end it", stay->pid);
        }
        if (stay->kind == STAY_UNCHARGED)
                (void)snprintf(text, STAY_TEXT_MAX,
                               "the driver has not taken back %s that no process holds: see "
                               "gpumemd's log",
                               size);
        else
                (void)snprintf(text, STAY_TEXT_MAX, "%s %s %s %s%s%s", holder,
                               words[stay->kind].before, size, after, allocated, stopped);
}

void stays_deinit(struct stays *stays)
{
        free(stays->stays);
}

static void add(struct stays *stays, const struct stay *stay)
{
        struct stay *all;

        for (uint32_t i = 0; i < stays->n; i++) {
                struct stay *same = &stays->stays[i];

                if (same->kind == stay->kind && same->pid == stay->pid && same->uid == stay->uid) {
                        same->n_bytes += stay->n_bytes;
                        return;
                }
        }
        all = reallocarray(stays->stays, stays->n + 1, sizeof(*all));
        if (!all) {
                stays->is_short_of_memory = true;
                return;
        }
        all[stays->n++] = *stay;
        stays->stays = all;
}

/* STAY_N_KINDS: it is on no process's account and there for the next request, or other tenants'. */
static enum stay_kind kind_of(const struct block_row *block, const struct client_row *client)
{
        bool is_taken = block->state == LISTED_LINGERING;

        if (!is_taken && block->state != LISTED_IDLE && block->state != LISTED_LEASED)
                return STAY_N_KINDS;
        if (client && client->state == LISTED_LEFT)
                return STAY_LEFT;
        if (client && client->state == LISTED_ORPHANED)
                return STAY_ORPHANED;
        if (block->state == LISTED_IDLE)
                return STAY_IDLE;
        if (!is_taken)
                return STAY_HELD;
        if (!block->lease)
                return STAY_UNCHARGED;
        return block->kind == GPUMEM_PINNED ? STAY_REGISTERED : STAY_MAPPED;
}

static int compare(const void *a, const void *b)
{
        const struct stay *one = a, *other = b;

        if ((one->kind == STAY_HELD) != (other->kind == STAY_HELD))
                return one->kind == STAY_HELD ? 1 : -1;
        if (one->n_bytes != other->n_bytes)
                return one->n_bytes > other->n_bytes ? -1 : 1;
        if (one->pid != other->pid)
                return one->pid < other->pid ? -1 : 1;
        return (one->kind > other->kind) - (one->kind < other->kind);
}

bool stay_tenant_is(const struct stay_tenant *tenant, uint32_t uid, const char *container)
{
        return tenant->uid == uid &&
               (!tenant->container || !container || strcmp(tenant->container, container) == 0);
}

void stays_find(const struct block_row *blocks, uint32_t n_blocks, const struct client_row *clients,
                uint32_t n_clients, const struct stay_tenant *tenant, struct stays *ret_stays)
{
        *ret_stays = (struct stays){.n = 0};
        for (uint32_t i = 0; i < n_blocks; i++) {
                const struct client_row *client = client_of_block(&blocks[i], clients, n_clients);
                struct stay stay = {.kind = kind_of(&blocks[i], client),
                                    .uid = blocks[i].uid,
                                    .pid = blocks[i].pid,
                                    .n_bytes = blocks[i].bytes,
                                    .n_allocated_bytes = LISTING_UNTOLD};

                if (stay.kind == STAY_N_KINDS ||
                    (tenant &&
                     !stay_tenant_is(tenant, blocks[i].uid, client ? client->container : NULL)))
                        continue;
                if (client)
                        memcpy(stay.program, client->program, sizeof(stay.program));
                add(ret_stays, &stay);
        }
        if (ret_stays->n)
                qsort(ret_stays->stays, ret_stays->n, sizeof(*ret_stays->stays), compare);
}

void stays_find_declared(struct stays *stays, const struct client_row *clients, uint32_t n_clients,
                         const struct stay_tenant *tenant)
{
        for (uint32_t i = 0; i < n_clients; i++) {
                struct stay stay = {.kind = STAY_DECLARED,
                                    .uid = clients[i].uid,
                                    .pid = clients[i].pid,
                                    .n_bytes = clients[i].device_declared +
                                               clients[i].pinned_declared,
                                    .n_allocated_bytes = LISTING_UNTOLD};

                if (!stay.n_bytes || clients[i].state == LISTED_OTHERS ||
                    (tenant && !stay_tenant_is(tenant, clients[i].uid, clients[i].container)))
                        continue;
                memcpy(stay.program, clients[i].program, sizeof(stay.program));
                add(stays, &stay);
        }
        if (stays->n)
                qsort(stays->stays, stays->n, sizeof(*stays->stays), compare);
}

void stays_find_allocated(struct stays *stays, const struct client_row *clients, uint32_t n_clients)
{
        for (uint32_t i = 0; i < stays->n; i++) {
                struct stay *stay = &stays->stays[i];

                if (stay->kind != STAY_HELD)
                        continue;
                stay->n_allocated_bytes = 0;
                for (uint32_t n = 0; n < n_clients; n++) {
                        if (clients[n].pid == stay->pid && clients[n].uid == stay->uid)
                                stay->n_allocated_bytes += clients[n].device_allocated +
                                                           clients[n].pinned_allocated;
                }
        }
}

void stays_find_stopped(struct stays *stays, bool (*is_stopped)(uint32_t pid, uint32_t uid))
{
        for (uint32_t i = 0; i < stays->n; i++) {
                struct stay *stay = &stays->stays[i];

                stay->is_stopped = stay->pid && is_stopped(stay->pid, stay->uid);
        }
}
