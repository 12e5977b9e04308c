#include "daemon/policy/standing.h"

#include <errno.h>

#include "gpumem.h"

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

bool standing_take_try(struct standing *standing, uint64_t now_ns)
{
        if (!standing->is_lost_by_call || now_ns < standing->try_ns)
                return false;
        standing->try_ns = now_ns + STANDING_TRY_NS;
        return true;
}
