/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/event.h"

#include "driver/context.h"
#include "driver/stream.h"
#include "gpumem.h"

struct recording {
        CUstream stream;
        struct work_event *event;
};

/* An event's memory is freed with its context: a driver that is asked for it may crash. */
static bool is_there(const struct cuda *cuda, const struct work_event *event)
{
        uint64_t id = event->context_id;

        return event->handle && !context_has_ended(cuda, event->context, &id) &&
               (!event->context_id || id == event->context_id);
}

static CUevent handle_of(const struct work_event *event)
{
        return (CUevent)(uintptr_t)event->handle;
}

static int make(const struct cuda *cuda, struct work_event *event)
{
        struct work_event made = {.handle = 0};
        CUevent handle;
        int r = context_current(cuda, &made.context);

        if (!r && context_has_ended(cuda, made.context, &made.context_id))
                r = GPUMEM_E_NO_CONTEXT;
        if (!r)
                r = CUDA_CALL(cuda, cuEventCreate, &handle, CU_EVENT_DISABLE_TIMING);
        if (r)
                return r;
        made.handle = (uint64_t)(uintptr_t)handle;
        *event = made;
        return 0;
}

static int record(const struct cuda *cuda, void *argument)
{
        struct recording *recording = argument;
        int r = is_there(cuda, recording->event) ? 0 : make(cuda, recording->event);

        return r ? r
                 : CUDA_CALL(cuda, cuEventRecord, handle_of(recording->event), recording->stream);
}

int event_record(const struct cuda *cuda, uint64_t context, void *stream, struct work_event *event)
{
        struct recording recording = {.stream = stream, .event = event};

        return context_run(cuda, context, record, &recording);
}

int event_record_here(const struct cuda *cuda, uint64_t context, uint64_t context_id, void *stream,
                      struct work_event *event)
{
        bool is_there = event->handle && event->context == context &&
                        event->context_id == context_id;
        int r = is_there ? 0 : make(cuda, event);

        return r ? r : CUDA_CALL(cuda, cuEventRecord, handle_of(event), stream);
}

static int record_all(const struct cuda *cuda, void *argument)
{
        struct recording *recording = argument;
        int r = is_there(cuda, recording->event) ? 0 : make(cuda, recording->event);
        CUcontext current;

        if (!r)
                r = CUDA_CALL(cuda, cuCtxGetCurrent, &current);
        return r ? r : CUDA_CALL(cuda, cuCtxRecordEvent, current, handle_of(recording->event));
}

int event_record_all(const struct cuda *cuda, uint64_t context, struct work_event *event)
{
        struct recording recording = {.event = event};

        if (!cuda->cuCtxRecordEvent)
                return GPUMEM_E_UNSUPPORTED;
        return context_run(cuda, context, record_all, &recording);
}

/* After some errors the context is of no use, and its work over. Others tell nothing about the work; one is that a stream
 * captures somewhere. */
enum event_state event_ask(const struct cuda *cuda, const struct work_event *event)
{
        if (!is_there(cuda, event))
                return EVENT_OVER;
        switch ((int)cuda->cuEventQuery(handle_of(event))) {
        case CUDA_SUCCESS:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_INVALID_CONTEXT:
        case CUDA_ERROR_INVALID_HANDLE:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_CONTAINED:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        case CUDA_ERROR_EXTERNAL_DEVICE:
                return EVENT_OVER;
        case CUDA_ERROR_INVALID_VALUE:
                return EVENT_LOST;
        default:
                return EVENT_PENDING;
        }
}

int event_wait(const struct cuda *cuda, const struct work_event *event)
{
        return is_there(cuda, event) ? CUDA_CALL(cuda, cuEventSynchronize, handle_of(event)) : 0;
}

int event_order(const struct cuda *cuda, void *stream, void *producer)
{
        struct work_event event = {.handle = 0};
        uint64_t context;
        int r = stream_find_context(cuda, producer, &context);

        if (!r)
                r = event_record(cuda, context, producer, &event);
        if (!r)
                r = CUDA_CALL(cuda, cuStreamWaitEvent, stream, handle_of(&event), 0);
        event_free(cuda, &event);
        return r;
}

void event_free(const struct cuda *cuda, struct work_event *event)
{
        if (is_there(cuda, event))
                (void)cuda->cuEventDestroy(handle_of(event));
        *event = (struct work_event){.handle = 0};
}
