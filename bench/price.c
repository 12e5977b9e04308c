/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/price.h"

#include "base/err.h"

/* Costs in microseconds: a message 10; by the size create, export, import, map and access;
 * unmap and release. What is between two sizes is between their costs. */
#define MESSAGE_US 10

struct cost {
        double mib, lease_us, return_us;
};

static const struct cost costs[] = {
        {2, 8 + 18 + 47 + 4 + 42, 25 + 9},          {20, 7 + 18 + 46 + 4 + 43, 25 + 16},
        {256, 9 + 18 + 47 + 4 + 70, 35 + 112},      {1024, 13 + 18 + 48 + 4 + 85, 42 + 405},
        {8192, 57 + 18 + 49 + 5 + 252, 100 + 1928},
};

static struct cost cost_of(uint64_t n_bytes)
{
        double mib = (double)n_bytes / (double)MIB, part;
        const struct cost *low = costs;

        while (low + 2 < costs + ARRAY_SIZE(costs) && low[1].mib < mib)
                low++;
        part = (mib - low->mib) / (low[1].mib - low->mib);
        return (struct cost){mib, low->lease_us + part * (low[1].lease_us - low->lease_us),
                             low->return_us + part * (low[1].return_us - low->return_us)};
}

/* Huge pages that the daemon has faulted in, mapped and registered: 46.9 GB/s. */
static double pinned_us(uint64_t n_bytes)
{
        return (double)n_bytes / 46.9e3;
}

double price_of_lease(enum replay_memory memory, uint64_t n_bytes)
{
        return MESSAGE_US +
               (memory == REPLAY_PINNED ? pinned_us(n_bytes) : cost_of(n_bytes).lease_us);
}

double price_of_return(uint64_t n_bytes)
{
        return cost_of(n_bytes).return_us;
}
