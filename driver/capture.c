/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/capture.h"

#include "gpumem.h"

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

int capture_look(const struct cuda *cuda, void *stream, struct stream_mark *ret_mark,
                 struct capture *ret_capture)
{
        CUstreamCaptureStatus status;
        cuuint64_t number;
        CUgraph graph;
        int r;

        r = CUDA_CALL(cuda, cuStreamGetCaptureInfo, stream, &status, &number, &graph, NULL, NULL,
                      NULL);
        if (!r && status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
                r = GPUMEM_E_UNSUPPORTED;
        if (r)
                return r;
        *ret_mark = (struct stream_mark){.scope = CAPTURE_SCOPE | number,
                                         .id = stream_captured_id(stream)};
        *ret_capture = (struct capture){.number = number, .graph = graph};
        return 0;
}

int capture_identify(const struct cuda *cuda, void *stream, struct stream_key *ret_key,
                     int *ret_ordinal)
{
        struct stream_mark mark;
        struct capture capture;
        struct stream_key key;
        int ordinal, r;

        r = capture_look(cuda, stream, &mark, &capture);
        if (!r)
                r = stream_identify_captured(cuda, stream, &key, &ordinal);
        if (r)
                return r;
        key.capture = capture.number;
        *ret_key = key;
        *ret_ordinal = ordinal;
        return 0;
}

int capture_tie(const struct cuda *cuda, const struct capture *capture, void (*gone)(void *),
                void *argument)
{
        CUuserObject object;
        int r = CUDA_CALL(cuda, cuUserObjectCreate, &object, argument, gone, 1,
                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);

        if (r) {
                gone(argument);
                return r;
        }
        r = CUDA_CALL(cuda, cuGraphRetainUserObject, capture->graph, object, 1,
                      CU_GRAPH_USER_OBJECT_MOVE);
        if (r)
                (void)CUDA_CALL(cuda, cuUserObjectRelease, object, 1);
        return r;
}
