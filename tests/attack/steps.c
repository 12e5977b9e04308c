/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/steps.h"

#include "base/err.h"
#include "base/fdset.h"
#include "gpumem.h"
#include "tests/flood/peer.h"

int steps_read(struct steps *ret_steps)
{
        CLEANUP(closep)
        int fd = peer_connect_admin();
        struct frame request = FRAME_NULL, reply;
        int r = fd < 0 ? GPUMEM_E_DISCONNECTED : peer_hello(fd);

        if (!r)
                r = peer_call(fd, &request, MESSAGE_LOOP, MESSAGE_LOOP_IS, &reply);
        if (r)
                return r;
        *ret_steps = (struct steps){.n = reply.loop_is.steps, .n_late = reply.loop_is.late_steps};
        return 0;
}
