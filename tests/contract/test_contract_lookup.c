/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are found by name and version, as frameworks find all of them, and what the forms do that are
 * found so only. */
#include "base/err.h"
#include "tests/contract/contract.h"

#define INVALID    CUDA_ERROR_INVALID_VALUE
#define DEFAULT    CU_GET_PROC_ADDRESS_DEFAULT
#define LEGACY     CU_GET_PROC_ADDRESS_LEGACY_STREAM
#define PER_THREAD CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
#define NEWEST     13000
#define UNTOUCHED  ((void *)(uintptr_t)0x55)
#define TOO_OLD    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
#define NO_SUCH    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND

typedef CUresult found_before_12(const char *, void **, int, cuuint64_t);
typedef CUresult created_before_11_4(CUcontext *, unsigned, CUdevice);
typedef CUresult created_before_12_5(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice);
typedef CUresult captured_before_11_3(CUstream, CUstreamCaptureStatus *, cuuint64_t *);
typedef CUresult captured_before_12_3(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                                      const CUgraphNode **, size_t *);
typedef CUresult elapsed_before_12_8(float *, CUevent, CUevent);
typedef CUresult instantiated_before_12(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
typedef CUresult context_of_any(CUstream, CUcontext *, CUgreenCtx *);
typedef CUresult device_of_any(CUdevice *, CUcontext);
typedef CUresult synchronize_any(CUcontext);

/* What must be there. */
static void *find(const char *name, int version, cuuint64_t flags)
{
        CUdriverProcAddressQueryResult found = NO_SUCH;
        void *function = UNTOUCHED;

        ck_ok(cu.cuGetProcAddress(name, &function, version, flags, &found));
        ck_assert_msg(found == CU_GET_PROC_ADDRESS_SUCCESS, "%s %d: %d", name, version, (int)found);
        ck_assert_ptr_nonnull(function);
        return function;
}

static const char *const names[] = {
#define CUDA_REQUIRED(call) #call,
#define CUDA_OPTIONAL(call)
#include "driver/cuda.def"
#include "tests/contract/calls.def"
#undef CUDA_REQUIRED
#undef CUDA_OPTIONAL
};

TEST(every_call_is_found_before_init)
{
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                (void)find(names[i], NEWEST, DEFAULT);
}

TEST(the_version_that_is_asked_for_is_found)
{
        static const struct {
                const char *name;
                int version;
                cuuint64_t flags;
                const char *function;
        } forms[] = {
                {"cuCtxCreate", 3020, DEFAULT, "cuCtxCreate_v2"},
                {"cuCtxCreate", 11040, DEFAULT, "cuCtxCreate_v3"},
                {"cuCtxCreate", 12040, DEFAULT, "cuCtxCreate_v3"},
                {"cuCtxCreate", 12050, DEFAULT, "cuCtxCreate_v4"},
                {"cuCtxCreate", NEWEST, DEFAULT, "cuCtxCreate_v4"},
                {"cuCtxGetDevice", 12090, DEFAULT, "cuCtxGetDevice"},
                {"cuCtxGetDevice", 13000, DEFAULT, "cuCtxGetDevice_v2"},
                {"cuCtxSynchronize", 12090, DEFAULT, "cuCtxSynchronize"},
                {"cuCtxSynchronize", 13000, DEFAULT, "cuCtxSynchronize_v2"},
                {"cuEventElapsedTime", 12070, DEFAULT, "cuEventElapsedTime"},
                {"cuEventElapsedTime", 12080, DEFAULT, "cuEventElapsedTime_v2"},
                {"cuGetProcAddress", 11030, DEFAULT, "cuGetProcAddress"},
                {"cuGetProcAddress", 12000, DEFAULT, "cuGetProcAddress_v2"},
                {"cuGraphInstantiate", 11000, DEFAULT, "cuGraphInstantiate_v2"},
                {"cuMemAlloc", 3020, LEGACY, "cuMemAlloc_v2"},
                {"cuStreamGetCaptureInfo", 10010, DEFAULT, "cuStreamGetCaptureInfo"},
                {"cuStreamGetCaptureInfo", 11030, DEFAULT, "cuStreamGetCaptureInfo_v2"},
                {"cuStreamGetCaptureInfo", 12020, LEGACY, "cuStreamGetCaptureInfo_v2"},
                {"cuStreamGetCaptureInfo", 12030, LEGACY, "cuStreamGetCaptureInfo_v3"},
                {"cuStreamGetCtx", 12040, DEFAULT, "cuStreamGetCtx"},
                {"cuStreamGetCtx", 12050, DEFAULT, "cuStreamGetCtx_v2"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
                ck_assert_msg(find(forms[i].name, forms[i].version, forms[i].flags) ==
                                      contract_symbol(forms[i].function),
                              "%s of %d is not %s", forms[i].name, forms[i].version,
                              forms[i].function);
}

/* A call that has no such form has its only one. */
TEST(forms_for_the_threads_own_stream_are_found)
{
        static const struct {
                const char *name;
                int version;
                const char *function;
        } forms[] = {
                {"cuInit", NEWEST, "cuInit"},
                {"cuMemAlloc", NEWEST, "cuMemAlloc_v2"},
                {"cuMemcpyHtoD", NEWEST, "cuMemcpyHtoD_v2_ptds"},
                {"cuMemcpyHtoDAsync", NEWEST, "cuMemcpyHtoDAsync_v2_ptsz"},
                {"cuMemsetD8", NEWEST, "cuMemsetD8_v2_ptds"},
                {"cuEventRecord", NEWEST, "cuEventRecord_ptsz"},
                {"cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo_ptsz"},
                {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2_ptsz"},
                {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3_ptsz"},
                {"cuStreamGetCtx", 12050, "cuStreamGetCtx_v2_ptsz"},
                {"cuStreamSynchronize", NEWEST, "cuStreamSynchronize_ptsz"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                void *function = contract_symbol(forms[i].function);

                ck_assert_ptr_eq(find(forms[i].name, forms[i].version, PER_THREAD), function);
                ck_assert_ptr_eq(find(forms[i].name, forms[i].version, LEGACY | PER_THREAD),
                                 function);
        }
}

TEST(what_is_not_found_is_no_error)
{
        static const struct {
                const char *name;
                int version;
                cuuint64_t flags;
                CUdriverProcAddressQueryResult why;
        } forms[] = {
                {"cuNoSuchCall", NEWEST, DEFAULT, NO_SUCH},
                {"cuMemAlloc_v2", NEWEST, DEFAULT, NO_SUCH},
                {"", NEWEST, DEFAULT, NO_SUCH},
                {"cuCtxGetId", 11080, DEFAULT, TOO_OLD},
                {"cuStreamGetCaptureInfo", 10000, DEFAULT, TOO_OLD},
                {"cuEventRecord", 6050, PER_THREAD, TOO_OLD},
        };

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
                void *function = UNTOUCHED;

                ck_ok(cu.cuGetProcAddress(forms[i].name, &function, forms[i].version,
                                          forms[i].flags, &found));
                ck_assert_msg(found == forms[i].why, "%s: %d", forms[i].name, (int)found);
                ck_assert_ptr_null(function);
                function = UNTOUCHED;
                ck_ok(cu.cuGetProcAddress(forms[i].name, &function, forms[i].version,
                                          forms[i].flags, NULL));
                ck_assert_ptr_null(function);
        }
}

TEST(newer_versions_and_unknown_flags_are_refused)
{
        CUdriverProcAddressQueryResult found = TOO_OLD;
        void *function = UNTOUCHED;
        int version;

        ck_ok(cu.cuDriverGetVersion(&version));
        ck_cuda(INVALID, cu.cuGetProcAddress("cuInit", &function, version + 10, DEFAULT, &found));
        ck_cuda(INVALID, cu.cuGetProcAddress("cuInit", &function, NEWEST, 4, &found));
        ck_assert_int_eq(found, TOO_OLD);
        ck_assert_ptr_eq(function, UNTOUCHED);
}

TEST(the_older_lookup_fails_where_it_finds_nothing)
{
        found_before_12 *lookup = (found_before_12 *)find("cuGetProcAddress", 11030, DEFAULT);
        void *function = UNTOUCHED;

        ck_cuda(CUDA_ERROR_NOT_FOUND, lookup("cuNoSuchCall", &function, 11030, DEFAULT));
        ck_cuda(CUDA_ERROR_NOT_FOUND, lookup("cuCtxGetId", &function, 11030, DEFAULT));
        ck_assert_ptr_eq(function, UNTOUCHED);
        ck_ok(lookup("cuInit", &function, 11030, DEFAULT));
        ck_assert_ptr_eq(function, contract_symbol("cuInit"));
}

TEST(older_forms_make_contexts)
{
        created_before_11_4 *create_2 = (created_before_11_4 *)find("cuCtxCreate", 3020, DEFAULT);
        created_before_12_5 *create_3 = (created_before_12_5 *)find("cuCtxCreate", 12040, DEFAULT);
        CUcontext made[2], current;

        contract_init();
        ck_ok(create_2(&made[0], 0, 0));
        ck_ok(create_3(&made[1], NULL, 0, 0, 0));
        ck_assert_ptr_ne(made[0], made[1]);
        for (int i = 1; i >= 0; i--) {
                ck_ok(cu.cuCtxGetCurrent(&current));
                ck_assert_ptr_eq(current, made[i]);
                ck_ok(cu.cuCtxDestroy(made[i]));
        }
}

TEST(older_forms_tell_of_captures)
{
        captured_before_11_3 *info_1 = (captured_before_11_3 *)find("cuStreamGetCaptureInfo", 10010,
                                                                    DEFAULT);
        captured_before_12_3 *info_2 = (captured_before_12_3 *)find("cuStreamGetCaptureInfo", 11030,
                                                                    DEFAULT);
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        cuuint64_t first = 0, second = 0;
        CUgraph captured = NULL, graph;
        const CUgraphNode *nodes;
        size_t n_nodes = 7;
        CUstream stream;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ck_ok(info_1(stream, &status, &first));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        status = CU_STREAM_CAPTURE_STATUS_NONE;
        ck_ok(info_2(stream, &status, &second, &captured, &nodes, &n_nodes));
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        ck_assert_uint_eq(first, second);
        ck_assert_uint_eq(n_nodes, 0);
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        ck_assert_ptr_eq(captured, graph);
}

TEST(older_forms_measure_and_instantiate)
{
        elapsed_before_12_8 *elapsed = (elapsed_before_12_8 *)find("cuEventElapsedTime", 12070,
                                                                   DEFAULT);
        instantiated_before_12 *instantiate = (instantiated_before_12 *)find("cuGraphInstantiate",
                                                                             11000, DEFAULT);
        CUgraphExec executable;
        CUevent first, last;
        CUstream stream;
        CUgraph graph;
        float ms = -1;

        (void)contract_context();
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        ck_ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ck_ok(cu.cuStreamEndCapture(stream, &graph));
        ck_ok(instantiate(&executable, graph, NULL, NULL, 0));
        first = contract_event(CU_EVENT_DEFAULT);
        last = contract_event(CU_EVENT_DEFAULT);
        ck_ok(cu.cuEventRecord(first, stream));
        ck_ok(cu.cuGraphLaunch(executable, stream));
        ck_ok(cu.cuEventRecord(last, stream));
        ck_ok(cu.cuEventSynchronize(last));
        ck_ok(elapsed(&ms, first, last));
        ck_assert(ms >= 0);
}

/* Before 13.0 the context was the current one; now NULL is. */
TEST(newer_forms_take_any_context)
{
        synchronize_any *synchronize = (synchronize_any *)find("cuCtxSynchronize", 13000, DEFAULT);
        device_of_any *get_device = (device_of_any *)find("cuCtxGetDevice", 13000, DEFAULT);
        context_of_any *get_context = (context_of_any *)find("cuStreamGetCtx", 12050, DEFAULT);
        CUcontext context = contract_context(), found = NULL;
        CUgreenCtx green = (CUgreenCtx)UNTOUCHED;
        CUdevice device = -1;

        ck_ok(get_context(contract_stream(CU_STREAM_NON_BLOCKING), &found, &green));
        ck_assert_ptr_eq(found, context);
        ck_assert_ptr_null(green);
        ck_ok(get_device(&device, NULL));
        ck_assert_int_eq(device, 0);
        ck_ok(synchronize(NULL));
        ck_ok(cu.cuCtxSetCurrent(NULL));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, get_device(&device, NULL));
        ck_cuda(CUDA_ERROR_INVALID_CONTEXT, synchronize(NULL));
        device = -1;
        ck_ok(get_device(&device, context));
        ck_assert_int_eq(device, 0);
        ck_ok(synchronize(context));
}

TEST(forms_for_the_threads_own_stream_use_it)
{
        __typeof__(cu.cuStreamGetId) get_id = (__typeof__(get_id))find("cuStreamGetId", NEWEST,
                                                                       PER_THREAD);
        __typeof__(cu.cuStreamQuery) query = (__typeof__(query))find("cuStreamQuery", NEWEST,
                                                                     PER_THREAD);
        __typeof__(cu.cuMemsetD8) fill = (__typeof__(fill))find("cuMemsetD8", NEWEST, PER_THREAD);
        __typeof__(cu.cuMemcpyDtoH) copy = (__typeof__(copy))find("cuMemcpyDtoH", NEWEST,
                                                                  PER_THREAD);
        unsigned long long own = 0, named = 1, legacy = 0;
        struct contract_gate gate = {0};
        unsigned char byte = 0;
        CUdeviceptr address;

        (void)contract_context();
        ck_ok(get_id(NULL, &own));
        ck_ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &named));
        ck_ok(cu.cuStreamGetId(NULL, &legacy));
        ck_assert_uint_eq(own, named);
        ck_assert_uint_ne(own, legacy);
        address = contract_alloc(4096);
        ck_ok(fill(address, 0xA5, 4096));
        ck_ok(copy(&byte, address + 4095, 1));
        ck_assert_uint_eq(byte, 0xA5);
        ck_ok(query(NULL));
        contract_hold(CU_STREAM_PER_THREAD, &gate);
        ck_cuda(CUDA_ERROR_NOT_READY, query(NULL));
        contract_open(&gate);
        ck_ok(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
        ck_ok(query(NULL));
}

TEST(an_unknown_table_is_refused)
{
        const CUuuid none = {.bytes = "no such table!"};
        const void *table = UNTOUCHED;

        contract_init();
        ck_cuda(INVALID, cu.cuGetExportTable(&table, &none));
        ck_assert_ptr_null(table);
        ck_cuda(INVALID, cu.cuGetExportTable(NULL, &none));
        ck_cuda(INVALID, cu.cuGetExportTable(&table, NULL));
}

CONTRACT_MAIN("lookup")
