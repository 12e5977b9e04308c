/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/stacks.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

#include "base/log.h"

void stack_take(struct stack *ret_stack)
{
        ret_stack->n_frames = backtrace(ret_stack->frames, STACK_FRAMES);
}

/* A frame is a return address: the call is before it. */
static void tell_frame(int number, void *frame)
{
        char *at = (char *)frame - 1;
        Dl_info info;

        if (!dladdr(at, &info) || !info.dli_fname)
                log_error("  #%d %p", number, frame);
        else if (!info.dli_sname)
                log_error("  #%d %s+0x%tx", number, info.dli_fname, at - (char *)info.dli_fbase);
        else
                log_error("  #%d %s in %s+0x%tx", number, info.dli_sname, info.dli_fname,
                          at - (char *)info.dli_fbase);
}

void stack_tell(const char *title, const struct stack *stack)
{
        log_error("%s", title);
        for (int i = 0; i < stack->n_frames; i++)
                tell_frame(i, stack->frames[i]);
}

int stack_compare(const struct stack *one, const struct stack *other)
{
        if (one->n_frames != other->n_frames)
                return one->n_frames < other->n_frames ? -1 : 1;
        return memcmp(one->frames, other->frames, (size_t)one->n_frames * sizeof(one->frames[0]));
}
