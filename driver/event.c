#include "driver/event.h"

#include "driver/context.h"

struct recording {
        CUstream stream;
        CUevent event;
};

static int record(const struct cuda *cuda, void *argument)
{
        struct recording *recording = argument;
        int r = 0;

        if (!recording->event)
                r = CUDA_CALL(cuda, cuEventCreate, &recording->event, CU_EVENT_DISABLE_TIMING);
        return r ? r : CUDA_CALL(cuda, cuEventRecord, recording->event, recording->stream);
}

int event_record(const struct cuda *cuda, uint64_t context, void *stream, uint64_t *event)
{
        struct recording recording = {.stream = stream, .event = (CUevent)(uintptr_t)*event};
        int r = context_run(cuda, context, record, &recording);

        *event = (uint64_t)(uintptr_t)recording.event;
        return r;
}

/* Other errors say nothing of the work: that a stream captures somewhere, for one. */
bool event_is_over(const struct cuda *cuda, uint64_t event)
{
        switch ((int)cuda->cuEventQuery((CUevent)(uintptr_t)event)) {
        case CUDA_SUCCESS:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_INVALID_CONTEXT:
        case CUDA_ERROR_INVALID_HANDLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_FAILED:
                return true;
        default:
                return false;
        }
}

void event_free(const struct cuda *cuda, uint64_t event)
{
        if (event)
                (void)cuda->cuEventDestroy((CUevent)(uintptr_t)event);
}
