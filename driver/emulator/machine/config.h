/* SPDX-License-Identifier: Apache-2.0 */
/* The options of GPUMEM_EMULATOR, as numbers: cuInit reads them once for this process. Pure, except for the look at
 * /dev/shm that finds the default directory.
 *
 * "devices=2,bytes=16GiB,dir=/path,delay_us=0,copy_delay_us=0,reclaim_ms=200,ctx_bytes=0,dirty=0,peers=16,rdma=1,
 * mig=0,fault_file=1", each optional, and any number of the faults that fault_rules.h lists. bytes is the capacity of every device; peers is
 * how many devices, from the first on, can access each other's memory. Processes with the same dir share the machine;
 * the default is gpumem-emulator-<uid> in /dev/shm if that has room, else in TMPDIR or /tmp. The file system behind
 * it must hold what is really written, or the writer gets SIGBUS. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "driver/emulator/machine/fault_rules.h"

#define CONFIG_DEVICES_MAX 16
#define CONFIG_REASON_MAX  (PATH_MAX + 256)

struct config {
        unsigned n_devices;
        uint64_t device_bytes;
        uint64_t call_delay_us;  /* added to every call of the virtual memory interface */
        uint64_t copy_delay_us;  /* added to every operation of a stream */
        uint64_t reclaim_ms;     /* until memory of a dead process is freed */
        uint64_t context_bytes;  /* what a primary context costs a process */
        uint64_t is_dirty;       /* 1: memory keeps its bytes from one owner to the next */
        uint64_t n_peers;        /* devices that can access each other's memory */
        uint64_t has_rdma;       /* 1: devices have GPUDirect RDMA for memory of cuMemCreate */
        uint64_t is_mig;         /* 1: devices are MIG instances, each of a GPU of its own */
        uint64_t has_fault_file; /* 1: calls look for the file of fault.h */
        struct fault_rules faults;
        char directory[PATH_MAX];
};

/* NULL and "" give the defaults. -EINVAL: an option is not valid; `ret_reason` says which, and what is allowed. */
int config_read(const char *text, struct config *ret_config, char ret_reason[CONFIG_REASON_MAX]);

/* Writes one sentence to a reason; returns -EINVAL, for the caller to return. */
int config_refuse(char reason[CONFIG_REASON_MAX], const char *format, ...) PRINTF_LIKE(2, 3);
