/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated NVML says of a device beyond what its store shows: MIG and errors, as the file
 * "nvml" in the machine's directory has them. It is for tests, is read at every call, and is
 * replaced by a rename. Each line is one of
 *
 * "mig=DEVICE:MODE"            0 off, 1 on
 * "uncorrected=DEVICE:N"       memory errors
 * "remapped=DEVICE:N"          1: rows wait for a reset to be replaced
 * "recovery=DEVICE:ACTION"     what NVML_FI_DEV_GET_GPU_RECOVERY_ACTION gives
 * "result=DEVICE:RESULT"       what every call for the device gives instead of an answer
 * "xid=DEVICE:N"               an error of that number has come, if it was another one before
 * "hang=DEVICE:1"              a call for the device does not go on before the line is gone
 * "nth=DEVICE:N"               of "result" and "hang": only the Nth call for the device does so, counted in each
 *                              process from when the file is as it is; calls for no device count as the first's
 *
 * What is no such line says nothing. */
#pragma once

#include <stdint.h>

struct nvml_state {
        uint64_t mig;
        uint64_t uncorrected;
        uint64_t remapped;
        uint64_t recovery;
        uint64_t result;
        uint64_t xid;
        uint64_t hang;
        uint64_t nth; /* 0: each */
};

/* All zero where there is no file; returns when nothing in it says that the device hangs. Any thread. */
void nvml_state_read(int directory_fd, unsigned device, struct nvml_state *ret_state);

/* The same for a call for no device: it does not fail or hang but by its number. */
void nvml_state_read_apart(int directory_fd, struct nvml_state *ret_state);
