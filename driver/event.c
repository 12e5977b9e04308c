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

bool event_is_over(const struct cuda *cuda, uint64_t event)
{
        return cuda->cuEventQuery((CUevent)(uintptr_t)event) != CUDA_ERROR_NOT_READY;
}

void event_free(const struct cuda *cuda, uint64_t event)
{
        if (event)
                (void)cuda->cuEventDestroy((CUevent)(uintptr_t)event);
}
