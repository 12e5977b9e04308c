/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a GPU, by the files in /dev that stand for it. Pure: what was found there is an argument. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_file {
        bool is_known; /* else it is not there, or its mode does not tell all, as with an access list */
        uint32_t uid, gid;
        uint32_t mode; /* permissions, as in stat */
};

/* Everybody may read it and write to it. */
bool device_file_is_open(const struct device_file *file);

/* Whether this user in these groups may. Root may, and what is not known is no reason to say no. */
bool device_file_opens(const struct device_file *file, uint32_t uid, const uint32_t *gids,
                       size_t n_gids);

/* The number in /dev/nvidiaN of the device with this UUID, out of a text like
 * /proc/driver/nvidia/gpus/0000:00:06.0/information. -ENODEV: it tells of another one; -EPROTO. */
int device_file_number(const char *information, const uint8_t uuid[static 16],
                       uint32_t *ret_number);
