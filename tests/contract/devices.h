/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of two devices share: 0 and 1, and granules of memory there. */
#pragma once

#include "tests/contract/contract.h"

#define DEVICES_BOTH CU_MEM_ACCESS_FLAGS_PROT_READWRITE

/* Both primary contexts are made. */
void devices_open(void);

/* The device's primary context is current; it is made if need be. */
void devices_use(int device);

/* A granule, exportable; and one at a fresh address to which no device has access yet. */
CUmemGenericAllocationHandle devices_create(int device);
CUdeviceptr devices_place(CUmemGenericAllocationHandle handle);

void devices_allow(CUdeviceptr address, int device, CUmemAccess_flags flags);
void devices_allow_both(CUdeviceptr address);

/* A granule, by the device whose context is current; waited for. */
CUresult devices_fill(CUdeviceptr address, unsigned char byte);

/* There is one device only to try on: GPUMEM_TEST_DEVICES. */
bool devices_is_one(void);
bool devices_are_two(void);
#define NEEDS_TWO_DEVICES .can_run = devices_are_two, .needs = "a second device"
