/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated NVML says of a device beyond what its store shows: MIG and errors, from the file "nvml" in the
 * machine's directory. It is for tests, is read at every call, and is replaced by a rename. Each line is one of
 *
 *  "mig=DEVICE:MODE"            0 off, 1 on
 *  "uncorrected=DEVICE:N"       memory errors
 *  "remapped=DEVICE:N"          1: rows wait for a reset to be replaced
 *  "recovery=DEVICE:ACTION"     the value of NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
 *  "result=DEVICE:RESULT"       what every call for the device gives instead of an answer
 *  "xid=DEVICE:N"               an error of that number has come, if it was another one before
 *  "hang=DEVICE:1"              a call for the device does not return before the line is gone
 *  "nth=DEVICE:N"               of "result" and "hang": only the Nth call for the device does so, counted in each
 *                               process since the file's last change; calls for no device count as the first's
 *
 * Other lines are ignored. */
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

/* All zero without a file. Returns when the file does not say that the device hangs. Any thread. */
void nvml_state_read(int directory_fd, unsigned device, struct nvml_state *ret_state);

/* The same for a call for no device: it fails or hangs by its number only. */
void nvml_state_read_apart(int directory_fd, struct nvml_state *ret_state);
