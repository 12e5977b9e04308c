/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/pool_sample.h"

#include "gpumem.h"

void pool_uuid(const struct pool_row *pool, char text[static UUID_TEXT_MAX])
{
        uuid_print(uuid_kind_of(pool->name), pool->uuid, text);
}

void pool_sample(struct lines *lines, const struct pool_row *pool)
{
        char uuid[UUID_TEXT_MAX];

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
