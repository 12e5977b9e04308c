/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that the processes of one emulated machine share: who comes first makes it, and
 * who comes later must want the same machine. Called once per process, by cuInit. */
#pragma once

#include <stdint.h>

#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/store.h"

struct directory {
        int fd;
        uint8_t seed[16]; /* from which the devices' UUIDs are made */
        struct store devices[CONFIG_DEVICES_MAX];
        struct store host;
};

/* -EINVAL: it was made for another machine; other faults are the system's. `ret_reason` explains
 * both. `directory` must stay where it is: the stores hold locks. */
int directory_init(struct directory *directory, const struct config *config,
                   char ret_reason[CONFIG_REASON_MAX]);
