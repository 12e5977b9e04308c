/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that the processes of one emulated machine share. The first process makes it; later ones must have
 * the same options. Called once for each process, by cuInit. */
#pragma once

#include <stdint.h>

#include "driver/emulator/machine/config.h"
#include "driver/emulator/machine/store.h"

struct directory {
        int fd;
        uint8_t seed[16]; /* the devices' UUIDs are made from it */
        struct store devices[CONFIG_DEVICES_MAX];
        struct store host;
};

/* -EINVAL: it was made for another machine; other errors are the system's. `ret_reason` explains both. `directory`
 * must not be moved: the stores hold locks. */
int directory_init(struct directory *directory, const struct config *config,
                   char ret_reason[CONFIG_REASON_MAX]);
