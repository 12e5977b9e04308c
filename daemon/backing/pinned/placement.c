/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/backing/pinned/placement.h"

#include <linux/mempolicy.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

#define LONG_BITS (8 * sizeof(unsigned long))
/* The maximum number of nodes that a kernel is built for. */
#define N_NODES 1024

int placement_set(void *bytes, uint64_t n_bytes, int node, enum placement placement)
{
        static atomic_flag told = ATOMIC_FLAG_INIT;
        unsigned long mask[N_NODES / LONG_BITS] = {0};
        int mode = placement == PLACEMENT_STRICT ? MPOL_BIND : MPOL_PREFERRED;

        if (node < 0 || node >= N_NODES)
                return -EINVAL;
        mask[(unsigned)node / LONG_BITS] = 1ul << ((unsigned)node % LONG_BITS);
        /* The kernel reads one bit less than the given number. */
        if (syscall(SYS_mbind, bytes, n_bytes, mode, mask, N_NODES + 1, 0) == 0)
                return 0;
        /* A kernel without NUMA, or the seccomp filter of a container. A cpuset that leaves out the node is an invalid argument. */
        if (errno != ENOSYS && errno != EPERM &&
            !(errno == EINVAL && placement == PLACEMENT_PREFERRED))
                return err_errno();
        if (!atomic_flag_test_and_set(&told))
                log_warning("cannot place pinned memory on NUMA node %d: %s", node,
                            strerror(errno));
        return 0;
}
