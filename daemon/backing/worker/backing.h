/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks are made of, and how they are made and let go.
 *
 * A backing is a pool's maker: device memory of one GPU, or pinned memory. Its two deeds may block for long, take the
 * driver's locks and fail; only the pool's worker calls them. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "driver/cuda.h"

/* The longest failure text that a job brings home. */
#define BACKING_FAILURE_MAX 160

struct backing_block;

enum backing_wholeness { BACKING_WHOLE, BACKING_HOLED };

struct backing {
        /* Fills in fd and handle. 0, GPUMEM_E_DEVICE_FULL or a fault, with ret_failure for the log; -ECANCELED if the
         * block was abandoned in time. */
        int (*create)(struct backing *backing, struct backing_block *block,
                      char ret_failure[static BACKING_FAILURE_MAX]);
        /* Lets go of both. What a client still maps stays until it does not. A failure is the driver's, with the job's
         * failure text: the block keeps the handle, and this may be called again. */
        int (*release)(struct backing *backing, struct backing_block *block);
        /* NULL, or: makes the block's memory and lets go of it, which a driver that works carries out. 0,
         * GPUMEM_E_DEVICE_FULL or a fault; a lost device is -ENODEV here, and in `create`. What could not be let go has
         * its handle in the block, which is to be released. */
        int (*try)(struct backing *backing, struct backing_block *block);
        struct backing *(*free)(struct backing *backing);
        /* NULL, or: a create that runs, and every later one, gives up soon. Any thread. */
        void (*cancel)(struct backing *backing);
        /* NULL, or: are all of the block's bytes still there, whatever its holder did to the fd? Makes no driver call
         * and does not block. Any thread. */
        enum backing_wholeness (*look)(const struct backing_block *block);
        /* A job takes so long at most, if the driver answers; 0: there is none, or no such time. */
        uint64_t call_ns;
        uint64_t call_ns_per_gib; /* and so much more */
};

/* More than any driver call that ends has been seen to take, other processes' long ones before it. */
#define BACKING_CALL_NS (UINT64_C(5) * 1000000000)

/* What a trial makes. */
#define BACKING_TRY_BYTES (UINT64_C(2) << 20)

enum job_kind { JOB_CREATE, JOB_RELEASE, JOB_TRY };

/* Work for a pool's worker. Embedded in what it is about, so that letting go never needs memory. */
struct job {
        TAILQ_ENTRY(job) link;
        enum job_kind kind;
        struct backing_block *block;
        void *owner; /* the submitter's */
        int result;
        char failure[BACKING_FAILURE_MAX];
};

TAILQ_HEAD(job_queue, job);

/* A block's substance. One that could not be made may have a handle all the same, which the driver would not take back
 * yet: it is to be released. Owned by the server from before its creation until after its release. */
struct backing_block {
        LIST_ENTRY(backing_block) link; /* the submitter's */
        atomic_bool abandoned;          /* nobody wants it any more: making it may be given up */
        bool may_be_used; /* it is released, and by a process that lost its connection: its bytes stay */
        uint64_t n_bytes;
        uint64_t handle;           /* device: the driver's; pinned: 0 */
        int fd;                    /* what clients are given; -1: none */
        unsigned n_unknown;        /* times that the driver said that it does not know the handle */
        struct {                   /* the submitter's */
                uint64_t n_losses; /* of the device, before this was ordered */
                unsigned n_failures; /* of releasing it */
                uint64_t retry_ns;   /* when that is tried again */
                bool is_trial;
        } life;
        struct job job;
};

int backing_device_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing);

/* The same by CUDA IPC handles, with a context of this process: its handle is an address there. */
int backing_device_legacy_new(const struct cuda *cuda, int ordinal, struct backing **ret_backing);

/* Memfds of a NUMA node's memory, of huge pages where there are some. `name` is copied; the sweeper outlives it. */
struct page_sweeper;
int backing_pinned_new(int node, const char *name, struct page_sweeper *sweeper,
                       struct backing **ret_backing);

/* The driver's own exportable memory of a NUMA node. */
int backing_pinned_vmm_new(const struct cuda *cuda, int node, struct backing **ret_backing);
