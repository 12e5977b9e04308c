#include "driver/capture.h"

struct capture_spared capture_spare(const struct cuda *cuda)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

        if (!cuda || CUDA_CALL(cuda, cuThreadExchangeStreamCaptureMode, &mode))
                return (struct capture_spared){.cuda = NULL};
        return (struct capture_spared){.cuda = cuda, .mode_before = (int)mode};
}

void capture_spare_end(struct capture_spared *spared)
{
        CUstreamCaptureMode mode = (CUstreamCaptureMode)spared->mode_before;

        if (spared->cuda)
                (void)CUDA_CALL(spared->cuda, cuThreadExchangeStreamCaptureMode, &mode);
        spared->cuda = NULL;
}
