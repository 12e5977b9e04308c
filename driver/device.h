/* SPDX-License-Identifier: Apache-2.0 */
/* Devices as the driver lists them: order, UUID, name, size. No context is needed. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda.h"

#define DEVICE_UUID_BYTES 16
#define DEVICE_NAME_MAX   64

struct device {
        int ordinal; /* in this process; depends on CUDA_VISIBLE_DEVICES */
        uint8_t uuid[DEVICE_UUID_BYTES];
        char name[DEVICE_NAME_MAX];
        uint64_t n_bytes;
        uint64_t n_granularity_bytes; /* of blocks */
        int numa_node;                /* -1: unknown */
        bool has_rdma; /* network adapters can reach memory of vmm_allocate with VMM_RDMA */
};

int device_count(const struct cuda *cuda, int *ret_count);

int device_describe(const struct cuda *cuda, int ordinal, struct device *ret_device);

/* Can a device be given access to another one's memory? */
int device_reaches(const struct cuda *cuda, int ordinal, int other, bool *ret_reaches);

/* The device with this UUID; GPUMEM_E_NO_POOL: this process does not see it. */
int device_find(const struct cuda *cuda, const uint8_t uuid[static DEVICE_UUID_BYTES],
                struct device *ret_device);
