/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/target.h"

#include <stdio.h>

#include "base/err.h"
#include "bench/commands.h"

int target_check(const char *what, int result)
{
        if (!result)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: %s: %s\n", what, gpumem_strerror(result));
        return err_fold(result);
}

int target_check_cuda(int result)
{
        if (!result)
                return 0;
        (void)fprintf(stderr, "gpumem-bench: %s\n", cuda_failure());
        return err_fold(result);
}

static int open_device(struct target *target)
{
        char reason[CUDA_REASON_MAX];
        int r = cuda_load(NULL, &target->cuda, reason);

        if (r) {
                (void)fprintf(stderr, "gpumem-bench: no CUDA driver: %s\n", reason);
                return err_fold(r);
        }
        r = CUDA_CALL(&target->cuda, cuDeviceGet, &target->device, 0);
        if (!r)
                r = CUDA_CALL(&target->cuda, cuDevicePrimaryCtxRetain, &target->context,
                              target->device);
        return target_check_cuda(r);
}

static int open_streams(struct target *target)
{
        int r = target_enter(target);

        for (unsigned i = 0; i < TARGET_STREAMS && !r; i++)
                r = target_check_cuda(CUDA_CALL(&target->cuda, cuStreamCreate, &target->streams[i],
                                                CU_STREAM_NON_BLOCKING));
        return r;
}

static int open_handles(struct target *target)
{
        int r = 0;

        for (unsigned i = 0; i < TARGET_STREAMS && !r; i++)
                r = target_check("a stream's handle",
                                 gpumem_stream_open(target->client, target->streams[i],
                                                    &target->handles[i]));
        return r;
}

int target_enter(const struct target *target)
{
        return target_check_cuda(CUDA_CALL(&target->cuda, cuCtxSetCurrent, target->context));
}

static int connect_client(const struct gpumem_options *options, struct gpumem_client **ret_client)
{
        struct gpumem_refusal refusal = {.struct_size = sizeof(refusal)};
        int r = gpumem_connect(options, ret_client);

        if (!r || gpumem_last_refusal(NULL, &refusal))
                return target_check("no connection to gpumemd", r);
        (void)fprintf(stderr, "gpumem-bench: no connection to gpumemd: %s\n", refusal.text);
        return err_fold(r);
}

int target_init(const struct options *options, struct target *ret_target)
{
        struct gpumem_options connect = {.struct_size = sizeof(connect),
                                         .socket_path = options->socket_path,
                                         .program = "gpumem-bench"};
        struct target target = TARGET_NULL;
        int r = open_device(&target);

        if (!r)
                r = open_streams(&target);
        if (!r)
                r = connect_client(&connect, &target.client);
        if (!r)
                r = open_handles(&target);
        if (r)
                target_deinit(&target);
        else
                *ret_target = target;
        return r;
}

void target_disconnect(struct target *target)
{
        for (unsigned i = 0; i < TARGET_STREAMS; i++) {
                (void)gpumem_stream_close(target->handles[i]);
                target->handles[i] = NULL;
        }
        gpumem_disconnect(target->client);
        target->client = NULL;
}

void target_deinit(struct target *target)
{
        target_disconnect(target);
        for (unsigned i = 0; i < TARGET_STREAMS; i++) {
                if (target->streams[i])
                        (void)CUDA_CALL(&target->cuda, cuStreamDestroy, target->streams[i]);
        }
        if (target->context)
                (void)CUDA_CALL(&target->cuda, cuDevicePrimaryCtxRelease, target->device);
        *target = TARGET_NULL;
}

int target_run(const struct options *options, struct rows *rows,
               int (*measure)(struct target *target, const struct options *options,
                              struct rows *rows))
{
        struct target target;
        int r = target_init(options, &target);

        if (r)
                return r;
        r = measure(&target, options, rows);
        target_deinit(&target);
        return r;
}

int target_stats(struct target *target, struct gpumem_stats *ret_stats)
{
        ret_stats->struct_size = sizeof(*ret_stats);
        return target_check("statistics", gpumem_get_stats(target->client, GPUMEM_DEVICE,
                                                           target->device, ret_stats));
}

int target_add_hits(struct target *target, const char *name, struct rows *rows)
{
        struct row row = {.unit = "%"};
        struct gpumem_stats stats;
        int r = target_stats(target, &stats);

        if (r)
                return r;
        (void)snprintf(row.name, ROW_NAME_MAX, "%s", name);
        row.value = 100 * (double)stats.n_hits / (double)(stats.n_hits + stats.n_misses);
        return rows_add(rows, &row);
}
