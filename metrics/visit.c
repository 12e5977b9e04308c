/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/visit.h"

uint64_t visit_deadline_ms(const struct visit *visit, enum visit_places places, uint32_t wait_ms)
{
        switch (visit->state) {
        case VISIT_READING:
                return visit->since_ms +
                       (places == VISIT_PLACES_TAKEN ? VISIT_READ_HURRIED_MS : VISIT_READ_MS);
        case VISIT_WAITING:
                return visit->since_ms + wait_ms;
        case VISIT_WRITING:
                return visit->since_ms +
                       (places == VISIT_PLACES_TAKEN ? VISIT_WRITE_HURRIED_MS : VISIT_WRITE_MS);
        case VISIT_SERVED:
        case VISIT_LEFT:
        case VISIT_CUT:
                break;
        }
        return UINT64_MAX;
}
