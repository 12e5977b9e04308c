/* SPDX-License-Identifier: Apache-2.0 */
/* What a device's health is after another look, and when it has recovered. */
#include <stdbool.h>

#include "driver/nvml.h"
#include "tests/suite.h"

/* One that is not heard of stays in error, and is tried again when it is heard of. */
TEST(an_error_lasts_until_something_else_is_said)
{
        for (int before = NVML_HEALTH_UNKNOWN; before <= NVML_LOST; before++) {
                for (int seen = NVML_HEALTH_UNKNOWN; seen <= NVML_LOST; seen++) {
                        enum nvml_health after = nvml_health_after((enum nvml_health)before,
                                                                   (enum nvml_health)seen);
                        bool stays = seen == NVML_HEALTH_UNKNOWN && before >= NVML_NEEDS_RESET;

                        ck_assert_int_eq(after, stays ? before : seen);
                        ck_assert_int_eq(nvml_health_is_recovery((enum nvml_health)before, after),
                                         before >= NVML_NEEDS_RESET &&
                                                 (seen == NVML_WELL || seen == NVML_WORN));
                }
        }
}

TESTS_MAIN("health")
