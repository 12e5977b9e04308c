/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use a GPU, decided by its files in /dev. Pure: the files' attributes are arguments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_file {
        bool is_known; /* false: the file is missing, or its mode is incomplete, as with an access list */
        uint32_t uid, gid;
        uint32_t mode; /* permissions, as in stat */
};

/* Whether this user may read and write the file whatever its groups are. */
bool device_file_opens_in_any_group(const struct device_file *file, uint32_t uid);

/* Whether this user with these groups may. Root may. An unknown file is no reason to refuse. */
bool device_file_opens(const struct device_file *file, uint32_t uid, const uint32_t *gids,
                       size_t n_gids);

/* The number N of /dev/nvidiaN of the device with this UUID, from a text such as
 * /proc/driver/nvidia/gpus/0000:00:06.0/information. -ENODEV: the text is about another device; -EPROTO. */
int device_file_number(const char *information, const uint8_t uuid[static 16],
                       uint32_t *ret_number);
