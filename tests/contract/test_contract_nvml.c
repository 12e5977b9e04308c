/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of memory that CUDA gives, through the project's own table. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/nvml.h"
#include "gpumem.h"
#include "tests/contract/contract.h"

#define LARGE ((size_t)256 << 20)

/* What the driver makes for a process beside its blocks. */
#define OWN_MAX ((size_t)16 << 20)

/* That long an error may be on its way. */
#define XID_LOOKS 500

static struct nvml nvml;
static struct nvml_device device;

/* The library beside the driver, and device 0 in it. */
static void open_device(void)
{
        const char *cuda_library = getenv("GPUMEM_CUDA_LIBRARY");
        char room[NVML_LIBRARY_MAX], reason[NVML_REASON_MAX];
        CUuuid uuid;
        int r;

        contract_init();
        r = nvml_load(nvml_library_name(NULL, cuda_library ? cuda_library : "libcuda.so.1", room),
                      &nvml, reason);
        ck_assert_msg(!r, "%s", reason);
        ck_ok(cu.cuDeviceGetUuid(&uuid, 0));
        ck_assert_int_eq(nvml_find(&nvml, (const uint8_t *)uuid.bytes, &device), 0);
}

static struct nvml_report look(void)
{
        struct nvml_report report;

        nvml_look(&nvml, &device, &report);
        return report;
}

/* The lists may be empty, or speak of pids of another namespace: then the bytes must do. */
static uint64_t listed_bytes(const struct nvml_report *report, pid_t pid)
{
        for (unsigned i = 0; i < report->n_processes; i++) {
                if (report->processes[i].pid == (uint32_t)pid)
                        return report->processes[i].n_bytes;
        }
        return NVML_UNKNOWN;
}

static void await_used(uint64_t at_most)
{
        int n_looks = 0;

        while (look().n_used_bytes > at_most)
                contract_pause(&n_looks);
}

/* Frameworks count so; the project does not. */
TEST(devices_are_counted)
{
        const char *cuda_library = getenv("GPUMEM_CUDA_LIBRARY");
        __typeof__(nvmlDeviceGetCount_v2) *count;
        char room[NVML_LIBRARY_MAX];
        unsigned n_devices = 0;
        int n_visible;

        open_device();
        count = (__typeof__(count))dlsym(
                dlopen(nvml_library_name(NULL, cuda_library ? cuda_library : "libcuda.so.1", room),
                       RTLD_NOW | RTLD_LOCAL),
                "nvmlDeviceGetCount_v2");
        ck_assert_ptr_nonnull((void *)count);
        ck_assert_int_eq(count(&n_devices), NVML_SUCCESS);
        ck_ok(cu.cuDeviceGetCount(&n_visible));
        ck_assert_uint_ge(n_devices, (unsigned)n_visible);
        ck_assert_int_eq(count(NULL), NVML_ERROR_INVALID_ARGUMENT);
}

TEST(a_device_is_found_by_its_uuid)
{
        uint8_t none[DEVICE_UUID_BYTES] = {0};
        struct nvml_device other;

        open_device();
        ck_assert_int_eq(nvml_find(&nvml, none, &other), GPUMEM_E_NO_POOL);
}

TEST(a_sound_device_is_called_well)
{
        struct nvml_report report;
        size_t n_bytes;

        open_device();
        report = look();
        ck_assert_int_eq(report.health, NVML_WELL);
        ck_assert_uint_ne(report.n_total_bytes, NVML_UNKNOWN);
        ck_assert_uint_le(report.n_used_bytes + report.n_free_bytes, report.n_total_bytes);
        ck_ok(cu.cuDeviceTotalMem(&n_bytes, 0));
        ck_assert_uint_ge(report.n_total_bytes, n_bytes);
        ck_assert_uint_le(report.mig, 1);
}

TEST(used_bytes_grow_by_a_block_without_a_context)
{
        CUmemGenericAllocationHandle handle;
        struct nvml_report before, with;

        open_device();
        /* What a process's first block brings with it. */
        ck_ok(cu.cuMemRelease(
                contract_create(CONTRACT_GRANULE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
        before = look();
        handle = contract_create(LARGE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        with = look();
        ck_assert_uint_ge(with.n_used_bytes, before.n_used_bytes + LARGE);
        ck_assert_uint_le(with.n_used_bytes, before.n_used_bytes + LARGE + OWN_MAX);
        ck_assert_uint_le(with.n_free_bytes, before.n_free_bytes - LARGE);
        ck_ok(cu.cuMemRelease(handle));
        await_used(before.n_used_bytes);
}

TEST(the_bytes_are_billed_to_who_made_them)
{
        struct nvml_report report;
        uint64_t n_bytes;

        open_device();
        (void)contract_create(LARGE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        report = look();
        n_bytes = listed_bytes(&report, getpid());
        if (n_bytes == NVML_UNKNOWN) {
                (void)printf("# figure: NVML lists %u processes and not this one\n",
                             report.n_processes);
                return;
        }
        ck_assert_uint_ge(n_bytes, LARGE);
        ck_assert_uint_le(n_bytes, LARGE + OWN_MAX);
}

/* Its context is spoilt by work on what was unmapped. */
static void reach_for_nothing(int socket)
{
        struct contract_block block;
        struct contract_gate gate;
        CUstream stream;

        (void)contract_receive(socket, 'g');
        (void)contract_context();
        block = contract_map(contract_create(CONTRACT_GRANULE, CU_MEM_HANDLE_TYPE_NONE),
                             CONTRACT_GRANULE);
        stream = contract_stream(CU_STREAM_NON_BLOCKING);
        contract_hold(stream, &gate);
        ck_ok(cu.cuMemsetD8Async(block.address, 1, CONTRACT_GRANULE, stream));
        contract_await(&gate);
        ck_ok(cu.cuMemUnmap(block.address, CONTRACT_GRANULE));
        contract_open(&gate);
        ck_cuda(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
        contract_send(socket, 'd', -1);
}

/* Whether it tells of a process's own fault is told as a figure: nothing relies on it. */
TEST(errors_are_asked_for_without_waiting)
{
        struct contract_peer peer = contract_start(reach_for_nothing);
        struct nvml_events events;
        struct nvml_report report;

        open_device();
        nvml_events_open(&nvml, &device, &events);
        report = look();
        ck_assert_uint_eq(report.last_xid, NVML_UNKNOWN);
        nvml_events_take(&nvml, &events, &report);
        ck_assert_uint_eq(report.n_xids, events.set ? 0 : NVML_UNKNOWN);
        contract_send(peer.socket, 'g', -1);
        (void)contract_receive(peer.socket, 'd');
        contract_finish(&peer);
        for (int n_looks = 0; events.set && !events.n_xids && n_looks < XID_LOOKS;) {
                contract_pause(&n_looks);
                nvml_events_take(&nvml, &events, &report);
        }
        (void)printf(
                "# figure: NVML tells of errors: %s; of a process's illegal address: XID %" PRIu64
                "\n",
                events.set ? "yes" : "no", events.last_xid);
        nvml_events_close(&nvml, &events);
}

static void make_and_give(int socket)
{
        contract_init();
        contract_send(
                socket, 'm',
                contract_export(contract_create(LARGE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
        (void)contract_receive(socket, 'e');
}

TEST(what_a_dead_process_made_is_used_while_a_fd_is_held)
{
        struct contract_peer peer = contract_start(make_and_give);
        struct nvml_report with;
        int fd = contract_receive(peer.socket, 'm');

        open_device();
        with = look();
        contract_kill(&peer);
        ck_assert_uint_ge(look().n_used_bytes + OWN_MAX, with.n_used_bytes);
        ck_assert_uint_eq(close(fd), 0);
        await_used(with.n_used_bytes - LARGE);
}

TEST(who_only_imports_is_not_billed)
{
        struct contract_peer peer = contract_start(make_and_give);
        struct nvml_report before, with;
        int fd = contract_receive(peer.socket, 'm');

        open_device();
        before = look();
        (void)contract_import(fd);
        with = look();
        ck_assert_uint_le(with.n_used_bytes, before.n_used_bytes + OWN_MAX);
        if (listed_bytes(&with, getpid()) != NVML_UNKNOWN)
                ck_assert_uint_le(listed_bytes(&with, getpid()), OWN_MAX);
        contract_send(peer.socket, 'e', -1);
        contract_finish(&peer);
}

CONTRACT_MAIN("nvml")
