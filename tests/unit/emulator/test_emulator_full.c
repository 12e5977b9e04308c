/* SPDX-License-Identifier: Apache-2.0 */
/* A file system that is full is an error of the emulated driver's calls, or of work, and no end of the process. */
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"

#define MIB    ((size_t)1 << 20)
#define FULL   CUDA_ERROR_OUT_OF_MEMORY
#define FAILED CUDA_ERROR_UNKNOWN

/* In namespaces of this process: root's, or a user's where the system allows that. */
static bool enter_namespace(void)
{
        if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
                return false;
        return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static bool mount_at(const char *place)
{
        return mount("tmpfs", place, "tmpfs", 0, "size=16m,mode=0777") == 0;
}

/* The machine's directory has 16 MiB, and a device of 1 GiB. */
static void begin(void)
{
        const char *place;

        contract_configure("devices=1,bytes=1GiB");
        place = strstr(getenv("GPUMEM_EMULATOR"), "dir=") + strlen("dir=");
        ck_assert(enter_namespace());
        ck_assert(mount_at(place));
}

TEST(work_that_finds_no_page_fails)
{
        CUdeviceptr address;

        begin();
        (void)contract_context();
        ck_ok(cu.cuMemAlloc(&address, 64 * MIB));
        ck_ok(cu.cuMemsetD8(address, 1, MIB));
        ck_assert_uint_eq(contract_read(address), 1);
        ck_cuda(FAILED, cu.cuMemsetD8(address, 1, 64 * MIB));
        ck_cuda(FAILED, cu.cuCtxSynchronize());
}

TEST(copies_that_find_no_page_fail, .to = 2)
{
        unsigned char *bytes = calloc(64, MIB);
        CUdeviceptr address;

        begin();
        (void)contract_context();
        ck_assert_ptr_nonnull(bytes);
        ck_ok(cu.cuMemAlloc(&address, 64 * MIB));
        ck_cuda(FAILED, _i ? cu.cuMemcpyHtoD(address, bytes, 64 * MIB)
                           : cu.cuMemcpyDtoH(bytes, address, 64 * MIB));
        free(bytes);
}

/* It is made of nothing; but where there is nothing at all none is made. */
TEST(memory_is_not_made_where_there_is_no_page)
{
        CUmemGenericAllocationHandle handle;
        CUmemAllocationProp properties;
        CUdeviceptr first, address;

        begin();
        (void)contract_context();
        properties = contract_properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        ck_ok(cu.cuMemAlloc(&first, 32 * MIB));
        ck_ok(cu.cuMemsetD8(first, 1, 14 * MIB));
        ck_cuda(FULL, cu.cuMemAlloc(&address, MIB));
        ck_cuda(FULL, cu.cuMemCreate(&handle, CONTRACT_GRANULE, &properties, 0));
        ck_ok(cu.cuMemFree(first));
        ck_ok(cu.cuMemAlloc(&address, 512 * MIB));
        ck_ok(cu.cuMemsetD8(address, 1, 14 * MIB));
}

/* The CPU touches it. */
TEST(host_memory_is_there_when_it_is_made)
{
        CUmemAllocationProp properties;
        CUmemGenericAllocationHandle handle;

        begin();
        (void)contract_context();
        properties = contract_properties(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
        ck_cuda(FULL, cu.cuMemCreate(&handle, 32 * MIB, &properties, 0));
        ck_ok(cu.cuMemCreate(&handle, 8 * MIB, &properties, 0));
        ck_ok(cu.cuMemRelease(handle));
}

/* The table of what is there needs pages, too. */
TEST(a_machine_is_not_begun_where_there_is_no_page)
{
        char path[512];
        FILE *file;

        begin();
        (void)snprintf(path, sizeof(path), "%s/filler",
                       strstr(getenv("GPUMEM_EMULATOR"), "dir=") + strlen("dir="));
        file = fopen(path, "we");
        ck_assert_ptr_nonnull(file);
        while (fwrite(path, sizeof(path), 1, file) == 1 && fflush(file) == 0)
                ;
        (void)fclose(file);
        ck_cuda(FULL, cu.cuInit(0));
}

static bool may_mount(void)
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
                _exit(!enter_namespace() || !mount_at("/tmp"));
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

CONTRACT_MAIN("full", .can_run = may_mount,
              .needs = "the right to mount, or a namespace that gives it")
