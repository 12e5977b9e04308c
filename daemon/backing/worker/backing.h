/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks are made of, and how they are created and released.
 *
 * A backing creates a pool's blocks: device memory of one GPU, or pinned memory. Its functions may block
 * for long, take the driver's locks and fail, so only the pool's worker calls them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/cuda.h"

/* The longest failure text of a job. */
#define BACKING_FAILURE_MAX 160

struct backing_block;

enum backing_wholeness { BACKING_WHOLE, BACKING_HOLED };

struct backing {
        /* Fills in fd and handle. 0, GPUMEM_E_DEVICE_FULL or a fault, with ret_failure for the log.
         * -ECANCELED: the block was abandoned in time. */
        int (*create)(struct backing *backing, struct backing_block *block,
                      char ret_failure[static BACKING_FAILURE_MAX]);
        /* Releases fd and handle. Memory that a client still maps stays until the client unmaps it. A
         * failure is the driver's, with the job's failure text: the block keeps the handle, and the
         * function may be called again. */
        int (*release)(struct backing *backing, struct backing_block *block);
        /* NULL, or tries the driver: creates a block's memory and releases it. 0, GPUMEM_E_DEVICE_FULL or a
         * fault; -ENODEV here and in `create`: the device is lost. If the release fails, the block keeps
         * its handle, and is to be released later. */
        int (*try)(struct backing *backing, struct backing_block *block);
        struct backing *(*free)(struct backing *backing);
        /* NULL, or aborts the running create, and every later one, soon. Any thread. */
        void (*cancel)(struct backing *backing);
        /* NULL, or checks that all of the block's bytes are still there: a client may have punched holes
         * through the fd. Makes no driver call and does not block. Any thread. */
        enum backing_wholeness (*look)(const struct backing_block *block);
        /* The longest time of a job while the driver answers; 0: jobs make no driver calls, or have no such
         * time. */
        uint64_t call_ns;
        uint64_t call_ns_per_gib; /* added for each GiB */
};

/* Longer than any driver call that returned has been seen to take, also behind other processes' long calls. */
#define BACKING_CALL_NS (UINT64_C(5) * 1000000000)

/* The size of a trial's block. */
#define BACKING_TRY_BYTES (UINT64_C(2) << 20)

enum job_kind { JOB_CREATE, JOB_RELEASE, JOB_TRY };

TAILQ_HEAD(job_queue, job);

/* Work for a pool's worker. Embedded in its object, so that a release never needs memory. */
struct job {
        TAILQ_ENTRY(job) link;
        enum job_kind kind;
        struct backing_block *block;
        uint64_t user;                                   /* for whom it is done, see job_lines.h */
        struct job_queue releases_behind, others_behind; /* while it is the first of its line */
        uint64_t used_ns;                                /* by its user's jobs: the same */
        void *owner;                                     /* for the submitter */
        int result;
        char failure[BACKING_FAILURE_MAX];
};

/* The memory behind a block. A block whose creation failed may still have a handle, if the driver did not
 * take it back: it is to be released. Owned by the server from before its creation until after its release. */
struct backing_block {
        LIST_ENTRY(backing_block) link; /* for the submitter */
        atomic_bool abandoned; /* no client wants the block any more: its creation may be aborted */
        bool may_be_used; /* released by a process that lost its connection and may use the memory: its bytes stay */
        bool is_rdma; /* device: to be made such that network adapters can reach it */
        uint64_t n_bytes;
        uint64_t handle;           /* device: the driver's; pinned: 0 */
        int fd;                    /* what clients are given; -1: none */
        unsigned n_unknown;        /* how often the driver said that it does not know the handle */
        struct {                   /* for the submitter */
                uint64_t n_losses; /* of the device, before this job was submitted */
                unsigned n_failures; /* of its release */
                uint64_t retry_ns;   /* when to retry the release */
                bool is_trial;
        } life;
        struct job job;
};

int backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing);

/* Device memory shared by CUDA IPC handles, with a context of this process: the handle is an address there. */
int backing_device_legacy_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing);

/* Memfds on a NUMA node, of huge pages while some are free. `name` is copied; the sweeper must outlive the
 * backing. */
struct page_sweeper;
int backing_pinned_new(int node, const char *name, struct page_sweeper *sweeper,
                       struct backing **ret_backing);

/* Exportable memory of a NUMA node, from the driver. */
int backing_pinned_vmm_new(const struct cuda *cuda, int node, struct backing **ret_backing);
