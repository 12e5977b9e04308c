/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to all: to memory, limits and drivers. */
#include "tests/model/policy_deeds.h"

#include "base/err.h"
#include "daemon/policy/scheduling/revoke_idle.h"

void deed_release_all(struct play *play)
{
        struct model_client *client = play_any_speaker(play);
        uint32_t pool = (uint32_t)play_below(play, MODEL_N_POOLS + 1);

        if (!client)
                return;
        play_settle(play);
        model_release_all(&play->model, client, play_one_in(play, 3) ? SCOPE_NODE : SCOPE_TENANT,
                          pool == MODEL_N_POOLS ? POLICY_ALL_POOLS : pool);
}

/* Also of no client, and of those that ask for it. */
void deed_reclaim(struct play *play)
{
        struct model_client *client = play_any_speaker(play);
        bool is_chosen[MODEL_N_TENANTS];

        if (!client)
                return;
        for (unsigned i = 0; i < MODEL_N_TENANTS; i++)
                is_chosen[i] = play_one_in(play, 2);
        play_settle(play);
        model_reclaim(&play->model, client, is_chosen);
}

/* Mostly what can be. */
void deed_prewarm(struct play *play)
{
        uint32_t pool = (uint32_t)play_below(play, MODEL_N_POOLS);
        uint64_t n_bytes = 2 * MIB * (1 + play_below(play, 12));

        if (play_one_in(play, 60))
                pool += MODEL_N_POOLS;
        if (play_one_in(play, 60))
                n_bytes = play_below(play, 300) * MIB;
        play_settle(play);
        model_prewarm(&play->model, pool, n_bytes);
}

void deed_change_keep(struct play *play)
{
        uint32_t pool = (uint32_t)play_below(play, MODEL_N_POOLS);
        uint64_t keep_bytes = play_below(play, play->model.pools[pool].n_device_bytes / 2);
        uint64_t return_after_ns = POLICY_KEEP_FOR_EVER;

        if (play_one_in(play, 2))
                return_after_ns = play_one_in(play, 4)
                                          ? 0
                                          : play_below(play, play_one_in(play, 3)
                                                                     ? REVOKE_IDLE_OTHERS_NS
                                                                     : 500);
        model_set_pool_keep(&play->model, pool, play_one_in(play, 3) ? 0 : keep_bytes,
                            return_after_ns);
}

/* A look at some, or so that all have been looked at. */
void deed_age(struct play *play)
{
        unsigned n_scans = (unsigned)play_below(play, 5);

        play_settle(play);
        if (play_one_in(play, 2)) {
                model_age(&play->model, n_scans);
                return;
        }
        for (unsigned i = 0; i < 2; i++) {
                model_age(&play->model, UINT32_MAX);
                play_settle(play);
                model_expect_kept(&play->model);
        }
        model_expect_returned(&play->model);
}

void deed_drain_idle(struct play *play)
{
        unsigned n_scans = (unsigned)play_below(play, 8);

        play_settle(play);
        model_drain_idle(&play->model, play_one_in(play, 4) ? UINT32_MAX : n_scans);
}

void deed_mark_unusable(struct play *play)
{
        struct model_lease *lease = play_any_lease(play);

        if (!lease)
                return;
        play_settle(play);
        model_mark_unusable(&play->model, lease);
}

void deed_retry(struct play *play)
{
        model_retry(&play->model, (uint32_t)play_below(play, MODEL_N_POOLS));
}

void deed_change_strangers(struct play *play)
{
        worker_change_strangers(&play->worker, &play->model, &play->random);
}

/* Mostly wide enough to let something through. */
static uint64_t any_max(struct play *play, unsigned kind)
{
        switch (play_below(play, 5)) {
        case 0:
                return LIMIT_NONE;
        case 1:
                return kind == LIMIT_LEASES ? play_below(play, 4) : play_below(play, 24) * MIB;
        default:
                return kind == LIMIT_LEASES ? 2 + play_below(play, 12)
                                            : (20 + play_below(play, 120)) * MIB;
        }
}

void deed_change_limit(struct play *play)
{
        enum limit_scope scope = play_one_in(play, 2) ? LIMIT_OF_CLIENT : LIMIT_OF_TENANT;
        unsigned kind = (unsigned)play_below(play, LIMIT_N_KINDS);
        uint32_t uid = POLICY_EVERY_UID;
        uint64_t max = any_max(play, kind);

        if (play_one_in(play, 6)) {
                model_clear_limits(&play->model);
                return;
        }
        if (scope == LIMIT_OF_TENANT && play_one_in(play, 2)) {
                uid = (uint32_t)play_below(play, MODEL_N_UIDS);
                max = play_one_in(play, 3) ? LIMIT_INHERIT : max;
        }
        model_set_limit(&play->model, scope, uid, kind, max);
}

/* Lower, higher, or more than the driver has. */
void deed_change_pool(struct play *play)
{
        uint32_t pool = (uint32_t)play_below(play, MODEL_N_POOLS);
        uint64_t n_device_bytes = play->model.pools[pool].n_device_bytes;

        model_set_pool_max(&play->model, pool,
                           play_one_in(play, 2)
                                   ? n_device_bytes
                                   : 2 * MIB + play_below(play, n_device_bytes * 5 / 4));
}

/* Mostly it serves. */
void deed_change_driver_status(struct play *play)
{
        static const enum driver_status others[] = {DRIVER_STALLED, DRIVER_STALLED, DRIVER_LOST};

        play_settle(play);
        model_set_driver_status(&play->model, (uint32_t)play_below(play, MODEL_N_POOLS),
                                play_one_in(play, 5) ? others[play_below(play, ARRAY_SIZE(others))]
                                                     : DRIVER_SERVES);
}
