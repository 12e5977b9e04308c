/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/leak_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/query/node_state.h"
#include "gpumem.h"

const char *leak_name(enum leak_kind kind)
{
        static const char *const names[LEAK_N_KINDS] = {
                [LEAK_LEFT] = "left",
                [LEAK_ORPHANED] = "orphaned",
                [LEAK_STOPPED] = "stopped",
                [LEAK_LINGERING] = "lingering",
                [LEAK_UNCHARGED] = "stuck",
                [LEAK_DECLARED] = "declared",
                [LEAK_IDLE] = "idle",
                [LEAK_SHARED] = "shared",
                [LEAK_REGISTERED] = "registered",
        };

        return names[kind];
}

/* By the user: reclaim needs one, or a container, and takes a user in all containers. */
static void advise_to_reclaim(uint32_t uid, char ret_advice[static LEAK_ADVICE_MAX])
{
        (void)snprintf(ret_advice, LEAK_ADVICE_MAX,
                       "others get it; root frees it: gpumemctl reclaim --uid %" PRIu32, uid);
}

void leak_advise(const struct leak *leak, char ret_advice[static LEAK_ADVICE_MAX])
{
        static const char *const advice[LEAK_N_KINDS] = {
                [LEAK_LEFT] = "has no connection, and may still map it: end the process",
                [LEAK_ORPHANED] = "has ended, a child holds its connection: end the child",
                [LEAK_STOPPED] = "is stopped: continue it (kill -CONT), or end it",
                [LEAK_LINGERING] = "has not unmapped what was taken back: end it, if it hangs",
                [LEAK_REGISTERED] = "keeps it registered: call gpumem_flush there, or end it",
                [LEAK_UNCHARGED] = "the driver does not take it back: see gpumemd's log",
                [LEAK_DECLARED] = "an earlier gpumemd's: goes when it is freed, or it ends",
                [LEAK_SHARED] = "attached it; the client that shared it has freed it",
        };

        if (leak->kind == LEAK_IDLE)
                advise_to_reclaim(leak->uid, ret_advice);
        else
                (void)snprintf(ret_advice, LEAK_ADVICE_MAX, "%s", advice[leak->kind]);
}

void leaks_deinit(struct leaks *leaks)
{
        free(leaks->leaks);
}

static struct leak *find(struct leaks *leaks, enum leak_kind kind, uint32_t pid, uint32_t uid,
                         uint32_t pool)
{
        for (uint32_t i = 0; i < leaks->n; i++) {
                struct leak *leak = &leaks->leaks[i];

                if (leak->kind == kind && leak->pid == pid && leak->uid == uid &&
                    leak->pool == pool)
                        return leak;
        }
        return NULL;
}

static void add(struct leaks *leaks, const struct leak *leak)
{
        struct leak *same = find(leaks, leak->kind, leak->pid, leak->uid, leak->pool);
        struct leak *all;

        if (same) {
                same->n_bytes += leak->n_bytes;
                same->n_blocks += leak->n_blocks;
                if (same->age_ms < leak->age_ms)
                        same->age_ms = leak->age_ms;
                return;
        }
        all = reallocarray(leaks->leaks, leaks->n + 1, sizeof(*all));
        if (!all) {
                leaks->is_short_of_memory = true;
                return;
        }
        all[leaks->n++] = *leak;
        leaks->leaks = all;
}

static bool is_gone(const struct client_row *client)
{
        return client && (client->state == LISTED_LEFT || client->state == LISTED_ORPHANED);
}

static struct leak of_client(const struct client_row *client, enum leak_kind kind, uint64_t n_bytes)
{
        struct leak leak = {.kind = kind,
                            .uid = client->uid,
                            .pid = client->pid,
                            .pool = LISTING_NOBODY,
                            .n_bytes = n_bytes,
                            .age_ms = client->connected};

        memcpy(leak.program, client->program, sizeof(leak.program));
        memcpy(leak.container, client->container, sizeof(leak.container));
        return leak;
}

static void look_at_client(const struct client_row *client, uint64_t older_ms,
                           bool (*is_stopped)(uint32_t pid, uint32_t uid), struct leaks *leaks)
{
        uint64_t n_charged = client->device_charged + client->pinned_charged;
        uint64_t n_declared = client->device_declared + client->pinned_declared;
        struct leak leak;

        if (client->state == LISTED_OTHERS || client->connected < older_ms)
                return;
        if (is_gone(client) && n_charged) {
                leak = of_client(client, client->state == LISTED_LEFT ? LEAK_LEFT : LEAK_ORPHANED,
                                 n_charged);
                add(leaks, &leak);
        } else if (client->state == LISTED_READY && n_charged &&
                   is_stopped(client->pid, client->uid)) {
                leak = of_client(client, LEAK_STOPPED, n_charged);
                add(leaks, &leak);
        } else if (n_declared) {
                leak = of_client(client, LEAK_DECLARED, n_declared);
                add(leaks, &leak);
        }
}

/* LEAK_N_KINDS: it is none. */
static enum leak_kind kind_of(const struct block_row *block, const struct client_row *client)
{
        if (block->state == LISTED_LINGERING && is_gone(client))
                return LEAK_N_KINDS;
        if (block->state == LISTED_LINGERING && !block->lease)
                return LEAK_UNCHARGED;
        if (block->state == LISTED_LINGERING)
                return block->kind == GPUMEM_PINNED ? LEAK_REGISTERED : LEAK_LINGERING;
        if (block->state == LISTED_IDLE)
                return LEAK_IDLE;
        if (block->state == LISTED_LEASED && block->passed_on && block->passed_on != LISTING_UNTOLD)
                return LEAK_SHARED;
        return LEAK_N_KINDS;
}

static void look_at_block(const struct leak_rows *rows, const struct block_row *block,
                          uint64_t older_ms, struct leaks *leaks)
{
        const struct client_row *client = client_of_block(block, rows->clients, rows->n_clients);
        struct leak leak = {.kind = kind_of(block, client),
                            .uid = block->uid,
                            .pid = block->pid,
                            .pool = block->pool,
                            .n_bytes = block->bytes,
                            .n_blocks = 1,
                            .age_ms = block->state_age};

        if (leak.kind == LEAK_N_KINDS || block->state_age < older_ms)
                return;
        if (client) {
                memcpy(leak.program, client->program, sizeof(leak.program));
                memcpy(leak.container, client->container, sizeof(leak.container));
        }
        add(leaks, &leak);
}

static int compare(const void *a, const void *b)
{
        const struct leak *one = a, *other = b;

        if (one->kind != other->kind)
                return one->kind < other->kind ? -1 : 1;
        if (one->n_bytes != other->n_bytes)
                return one->n_bytes > other->n_bytes ? -1 : 1;
        return (one->pid > other->pid) - (one->pid < other->pid);
}

void leaks_find(const struct leak_rows *rows, uint64_t older_ms,
                bool (*is_stopped)(uint32_t pid, uint32_t uid), struct leaks *ret_leaks)
{
        *ret_leaks = (struct leaks){.n = 0};
        for (uint32_t i = 0; i < rows->n_clients; i++)
                look_at_client(&rows->clients[i], older_ms, is_stopped, ret_leaks);
        for (uint32_t i = 0; i < rows->n_blocks; i++)
                look_at_block(rows, &rows->blocks[i], older_ms, ret_leaks);
        if (ret_leaks->n)
                qsort(ret_leaks->leaks, ret_leaks->n, sizeof(*ret_leaks->leaks), compare);
}
