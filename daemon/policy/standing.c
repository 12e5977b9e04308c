#include "daemon/policy/standing.h"

#include <errno.h>

#include "gpumem.h"

/* STANDING_TRY_NS, doubled so many times. */
static uint64_t doubled(unsigned n_times, uint64_t most_ns)
{
        uint64_t wait_ns = STANDING_TRY_NS;

        for (; n_times && wait_ns < most_ns; n_times--)
                wait_ns *= 2;
        return wait_ns;
}

static bool conclude(struct standing *standing, uint64_t now_ns)
{
        enum standing_state state = STANDING_SERVES;

        if (standing->is_lost_by_call || standing->is_lost_by_nvml)
                state = STANDING_LOST;
        else if (standing->hangs)
                state = STANDING_STALLED;
        if (state == standing->state)
                return false;
        standing->state = state;
        standing->n_losses += state == STANDING_LOST;
        standing->since_ns = now_ns;
        return true;
}

bool standing_see_call(struct standing *standing, bool hangs, uint64_t now_ns)
{
        standing->hangs = hangs;
        return conclude(standing, now_ns);
}

bool standing_see_nvml(struct standing *standing, bool says_lost, uint64_t now_ns)
{
        standing->is_lost_by_nvml = says_lost;
        return conclude(standing, now_ns);
}

bool standing_hear(struct standing *standing, int result, uint64_t now_ns)
{
        if (result == -ENODEV && !standing->is_lost_by_call) {
                standing->is_lost_by_call = true;
                standing->try_ns = now_ns + STANDING_TRY_NS;
        } else if (result == 0 || result == GPUMEM_E_DEVICE_FULL) {
                standing->is_lost_by_call = false;
        }
        return conclude(standing, now_ns);
}

bool standing_hear_release(struct standing *standing, uint64_t n_losses, int result,
                           uint64_t now_ns)
{
        /* To release something is no sign of a device that works. */
        if (result != -ENODEV || n_losses != standing->n_losses)
                return false;
        return standing_hear(standing, result, now_ns);
}

uint64_t standing_next_release(const struct standing *standing, uint64_t n_losses,
                               unsigned n_failures, uint64_t now_ns)
{
        bool is_old = n_losses != standing->n_losses;

        return now_ns + doubled(n_failures - 1, is_old ? STANDING_RETRY_OLD_NS : STANDING_RETRY_NS);
}

bool standing_take_try(struct standing *standing, unsigned n_kept, uint64_t now_ns)
{
        if (!standing->is_lost_by_call || now_ns < standing->try_ns)
                return false;
        standing->try_ns = now_ns + doubled(n_kept, STANDING_RETRY_OLD_NS);
        return true;
}
