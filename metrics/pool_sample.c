/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/pool_sample.h"

#include "gpumem.h"

void pool_uuid(const struct pool_row *pool, char text[static POOL_UUID_MAX])
{
        int n = snprintf(text, POOL_UUID_MAX, "GPU-");

        for (unsigned i = 0; i < sizeof(pool->uuid); i++)
                n += snprintf(text + n, POOL_UUID_MAX - (size_t)n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", pool->uuid[i]);
}

void pool_sample(struct lines *lines, const struct pool_row *pool)
{
        char uuid[POOL_UUID_MAX];

        lines_sample(lines);
        lines_label_number(lines, "pool", pool->id);
        if (pool->kind == GPUMEM_DEVICE) {
                pool_uuid(pool, uuid);
                lines_label(lines, "kind", "device");
                lines_label(lines, "gpu_uuid", uuid);
        } else {
                lines_label(lines, "kind", "pinned");
                lines_label_number(lines, "numa_node", pool->place);
        }
}
