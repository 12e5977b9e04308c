/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated driver's one environment variable, its directory, and which devices are seen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "tests/contract/contract.h"

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define MIB      ((size_t)1 << 20)

/* What cuInit writes to stderr; its result must be `expected`. */
static void init_explained(CUresult expected, char *ret_text, size_t n_bytes)
{
        int saved = dup(STDERR_FILENO), pipe_fds[2];
        ssize_t n;

        ck_assert_int_eq(pipe(pipe_fds), 0);
        ck_assert_int_ge(dup2(pipe_fds[1], STDERR_FILENO), 0);
        ck_cuda(expected, cu.cuInit(0));
        ck_cuda(expected, cu.cuInit(0));
        ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
        (void)close(pipe_fds[1]);
        n = read(pipe_fds[0], ret_text, n_bytes - 1);
        ck_assert_int_ge(n, 0);
        ret_text[n] = '\0';
}

static const struct {
        const char *options;
        const char *named;
        const char *allowed;
} bad_options[] = {
        {"devices=0", "devices=0", "1 to 16"},
        {"devices=17", "devices=17", "1 to 16"},
        {"devices=two", "devices=two", "1 to 16"},
        {"bytes=3MiB", "bytes=3MiB", "multiple of 2MiB"},
        {"bytes=1KiB", "bytes=1KiB", "2MiB to 4TiB"},
        {"bytes=", "bytes=", "a size such as 16GiB"},
        {"dir=relative/path", "dir=relative/path", "an absolute path"},
        {"delay_us=-1", "delay_us=-1", "microseconds"},
        {"copy_delay_us=1s", "copy_delay_us=1s", "microseconds"},
        {"reclaim_ms=99999999999", "reclaim_ms", "milliseconds"},
        {"ctx_bytes=1", "ctx_bytes=1", "multiple of 2MiB"},
        {"peers=0", "peers=0", "1 to 16"},
        {"fail=cuMemCreate", "fail=cuMemCreate", "CALL:N:RESULT"},
        {"fail=cuMemCreate:0:2", "fail=cuMemCreate:0:2", "CALL:N:RESULT"},
        {"fail=cuMemCreate:1:2:3", "fail=cuMemCreate:1:2:3", "CALL:N:RESULT"},
        {"fail=cuMemCreate:0%:2", "fail=cuMemCreate:0%:2", "CALL:N:RESULT"},
        {"fail=cuMemCreate:101%:2", "fail=cuMemCreate:101%:2", "N a rate as 1%"},
        {"fail=cuMemCreate:%:2", "fail=cuMemCreate:%:2", "CALL:N:RESULT"},
        {"hang=cuMemCreate:1%", "hang=cuMemCreate:1%", "CALL:N"},
        {"seed=", "seed=", "a number"},
        {"seed=1:2", "seed=1:2", "a number"},
        {"fail=memory:1:2", "fail=memory:1:2", "CALL:N:RESULT"},
        {"fail=cuMemCrate:1:2", "cuMemCrate", "no cuMemCrate that could fail"},
        {"delay=cuMemMap", "delay=cuMemMap", "CALL:MICROSECONDS"},
        {"delay=cuMemMap:99999999", "delay=cuMemMap:99999999", "up to 10000000"},
        {"hang=cuMemMap:x", "hang=cuMemMap:x", "CALL:N such"},
        {"lost=cuMemMap:", "lost=cuMemMap:", "CALL:N or"},
        {"colour=red", "colour", "devices, bytes, dir"},
        {"devices", "devices", "name=value"},
        {"devices=1,,bytes=1GiB", "''", "name=value"},
};

TEST(bad_options_are_explained_in_one_line, .to = ARRAY_SIZE(bad_options))
{
        char text[4096];

        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", bad_options[_i].options, 1), 0);
        init_explained(CUDA_ERROR_INVALID_VALUE, text, sizeof(text));
        ck_assert_msg(strstr(text, bad_options[_i].named), "%s", text);
        ck_assert_msg(strstr(text, bad_options[_i].allowed), "%s", text);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

TEST(good_options_say_nothing)
{
        char text[64];
        size_t n_bytes;
        int n;

        contract_configure("devices=3,bytes=1.5GiB,delay_us=0,copy_delay_us=0,ctx_bytes=2MiB,"
                           "fail=cuMemMap:*:1,delay=*:1,hang=cuMemAlloc:9,lost=cuMemFree:*");
        init_explained(CUDA_SUCCESS, text, sizeof(text));
        ck_assert_str_eq(text, "");
        ck_ok(cu.cuDeviceGetCount(&n));
        ck_assert_int_eq(n, 3);
        ck_ok(cu.cuDeviceTotalMem(&n_bytes, 2));
        ck_assert_uint_eq(n_bytes, 1536 * MIB);
}

static void init_only(int socket)
{
        contract_init();
        contract_send(socket, 'i', -1);
}

TEST(another_machine_in_the_directory_is_explained)
{
        struct contract_peer first;
        char text[4096];

        contract_configure("devices=2,bytes=1GiB");
        first = contract_start(init_only);
        (void)contract_receive(first.socket, 'i');
        contract_finish(&first);
        contract_configure("devices=2,bytes=2GiB");
        init_explained(CUDA_ERROR_INVALID_VALUE, text, sizeof(text));
        ck_assert_msg(strstr(text, "bytes=1.00 GiB"), "%s", text);
        ck_assert_msg(strstr(text, "bytes=2.00 GiB"), "%s", text);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

TEST(a_missing_parent_directory_is_explained)
{
        char text[4096];

        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", "dir=/proc/nowhere/emulator", 1), 0);
        init_explained(CUDA_ERROR_OPERATING_SYSTEM, text, sizeof(text));
        ck_assert_msg(strstr(text, "/proc/nowhere/emulator"), "%s", text);
}

/* Initialises when told to, and takes some memory; says which machine it found. */
static void starter(int socket)
{
        CUmemAllocationProp properties = contract_properties(CU_MEM_HANDLE_TYPE_NONE);
        CUmemGenericAllocationHandle handle;
        CUuuid uuid;

        (void)contract_receive(socket, 's');
        contract_init();
        ck_ok(cu.cuMemCreate(&handle, 32 * MIB, &properties, 0));
        ck_ok(cu.cuDeviceGetUuid(&uuid, 0));
        ck_assert_int_eq(write(socket, &uuid, sizeof(uuid)), sizeof(uuid));
        (void)contract_receive(socket, 'x');
}

TEST(processes_may_start_at_once)
{
        enum { N = 8 };
        struct contract_peer peers[N];
        CUuuid uuids[N];
        size_t n_free;

        for (int i = 0; i < N; i++)
                peers[i] = contract_start(starter);
        for (int i = 0; i < N; i++)
                contract_send(peers[i].socket, 's', -1);
        for (int i = 0; i < N; i++) {
                ck_assert_int_eq(read(peers[i].socket, &uuids[i], sizeof(uuids[i])),
                                 sizeof(uuids[i]));
                ck_assert_mem_eq(&uuids[i], &uuids[0], sizeof(uuids[0]));
        }
        (void)contract_context();
        n_free = contract_free_bytes();
        ck_assert_uint_eq(n_free, 1024 * MIB - N * 32 * MIB);
        for (int i = 0; i < N; i++) {
                contract_send(peers[i].socket, 'x', -1);
                contract_finish(&peers[i]);
        }
}

static void uuid_sender(int socket)
{
        CUuuid uuid;

        contract_init();
        for (int i = 0; i < 2; i++) {
                ck_ok(cu.cuDeviceGetUuid(&uuid, i));
                ck_assert_int_eq(write(socket, &uuid, sizeof(uuid)), sizeof(uuid));
        }
}

static void stranger_uuid_sender(int socket)
{
        contract_configure(CONTRACT_OPTIONS);
        uuid_sender(socket);
}

static void uuids_of(void (*function)(int), CUuuid uuids[2])
{
        struct contract_peer peer = contract_start(function);

        for (int i = 0; i < 2; i++)
                ck_assert_int_eq(read(peer.socket, &uuids[i], sizeof(uuids[i])), sizeof(uuids[i]));
        contract_finish(&peer);
}

TEST(uuids_belong_to_the_directory)
{
        CUuuid here[2], again[2], elsewhere[2];

        uuids_of(uuid_sender, here);
        uuids_of(uuid_sender, again);
        uuids_of(stranger_uuid_sender, elsewhere);
        for (int i = 0; i < 2; i++) {
                ck_assert_mem_eq(&here[i], &again[i], sizeof(here[i]));
                ck_assert_mem_ne(&here[i], &elsewhere[i], sizeof(here[i]));
        }
        ck_assert_mem_ne(&here[0], &here[1], sizeof(here[0]));
}

static void check_visible(const char *visible, const char *first_name, int n_expected)
{
        char name[64];
        int n;

        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", visible, 1), 0);
        contract_init();
        ck_ok(cu.cuDeviceGetCount(&n));
        ck_assert_int_eq(n, n_expected);
        ck_ok(cu.cuDeviceGetName(name, sizeof(name), 0));
        ck_assert_str_eq(name, first_name);
}

TEST(visible_devices_by_index)
{
        check_visible("1,0", "Emulated GPU 1", 2);
}

TEST(visible_devices_end_at_a_wrong_index)
{
        check_visible("1,7,0", "Emulated GPU 1", 1);
}

static void check_visible_by_uuid(const char *prefix, const char *first_name)
{
        char text[32];
        CUuuid uuids[2];
        int n;

        uuids_of(uuid_sender, uuids);
        n = snprintf(text, sizeof(text), "%s", prefix);
        for (int i = 0; i < 4; i++)
                n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x",
                              (unsigned char)uuids[1].bytes[i]);
        check_visible(text, first_name, 1);
}

TEST(visible_devices_by_uuid)
{
        check_visible_by_uuid("GPU-", "Emulated GPU 1");
}

TEST(visible_instances_by_uuid)
{
        contract_configure(CONTRACT_OPTIONS ",mig=1");
        check_visible_by_uuid("MIG-", "Emulated GPU 1 MIG 1g");
}

TEST(no_visible_device_is_an_error)
{
        int n;

        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
        ck_cuda(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
        ck_cuda(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&n));
}

/* Memory of the first device. */
static void first_device_holder(int socket)
{
        contract_init();
        contract_send(socket, 'h', contract_export(contract_create(2 * MIB, POSIX_FD)));
        (void)contract_receive(socket, 'x');
}

TEST(a_hidden_device_s_memory_is_not_imported)
{
        struct contract_peer other = contract_start(first_device_holder);
        int fd = contract_receive(other.socket, 'h');
        CUmemGenericAllocationHandle handle;

        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "1", 1), 0);
        contract_init();
        ck_cuda(CUDA_ERROR_UNKNOWN,
                cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd, POSIX_FD));
        contract_kill(&other);
}

TEST(an_import_names_the_device_as_the_process_does)
{
        struct contract_peer other = contract_start(first_device_holder);
        int fd = contract_receive(other.socket, 'h');
        CUmemAllocationProp properties;

        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "1,0", 1), 0);
        contract_init();
        ck_ok(cu.cuMemGetAllocationPropertiesFromHandle(&properties, contract_import(fd)));
        ck_assert_int_eq(properties.location.id, 1);
        contract_kill(&other);
}

static int can_access(int device, int peer)
{
        int can = -1;

        ck_ok(cu.cuDeviceCanAccessPeer(&can, device, peer));
        return can;
}

/* Physical devices 0 and 1 are peers, and 2 and 3. */
TEST(devices_are_peers_in_rows)
{
        CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        struct contract_block block;

        contract_configure("devices=4,bytes=64MiB,peers=2");
        ck_assert_int_eq(setenv("CUDA_VISIBLE_DEVICES", "1,2,0", 1), 0);
        contract_init();
        ck_assert_int_eq(can_access(0, 1), 0);
        ck_assert_int_eq(can_access(1, 2), 0);
        ck_assert_int_eq(can_access(0, 2), 1);
        ck_assert_int_eq(can_access(2, 0), 1);
        block = contract_map(contract_create(2 * MIB, POSIX_FD), 2 * MIB);
        access.location.id = 2;
        ck_ok(cu.cuMemSetAccess(block.address, 2 * MIB, &access, 1));
        access.location.id = 1;
        ck_cuda(CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(block.address, 2 * MIB, &access, 1));
}

TEST(calls_and_copies_take_as_long_as_configured)
{
        CUdeviceptr address;
        uint64_t start;

        contract_configure("bytes=1GiB,delay_us=20000,copy_delay_us=30000");
        (void)contract_context();
        start = clock_now_us();
        ck_ok(cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0));
        ck_ok(cu.cuMemAddressFree(address, 2 * MIB));
        ck_assert_uint_ge(clock_now_us() - start, 40000);
        ck_ok(cu.cuMemAlloc(&address, 4096));
        start = clock_now_us();
        ck_ok(cu.cuMemsetD8(address, 1, 1));
        ck_assert_uint_ge(clock_now_us() - start, 30000);
}

TEST(the_directory_is_the_user_s_own)
{
        char path[128], options[160];
        struct stat st;

        (void)snprintf(path, sizeof(path), "%s/fresh",
                       strstr(getenv("GPUMEM_EMULATOR"), "dir=") + strlen("dir="));
        (void)snprintf(options, sizeof(options), "bytes=1GiB,dir=%s", path);
        ck_assert_int_eq(setenv("GPUMEM_EMULATOR", options, 1), 0);
        (void)umask(0);
        contract_init();
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0700);
        (void)strcat(path, "/device-0");
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
        ck_assert_int_eq(st.st_size, (off_t)(64 * 1024 * MIB));
        ck_assert_int_eq(st.st_blocks, 0);
}

CONTRACT_MAIN("emulator_config")
