/* SPDX-License-Identifier: Apache-2.0 */
#include "client/mapping/mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/log.h"
#include "base/memfd.h"
#include "client/runtime/last_error.h"
#include "driver/host.h"
#include "driver/vmm.h"
#include "gpumem.h"

#define WINDOW_ABOVE 4

static void *pointer_to(uint64_t address)
{
        return (void *)(uintptr_t)address;
}

/* Reserves more than asked for, then cuts it to the alignment: mmap aligns to pages only. */
static int reserve_host(uint64_t n_bytes, uint64_t *ret_address)
{
        uint64_t n_wide = n_bytes + MAPPING_ALIGNMENT;
        uint64_t start, aligned, n_before;
        void *bytes = mmap(NULL, n_wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                           0);

        if (bytes == MAP_FAILED)
                return err_errno();
        start = (uint64_t)(uintptr_t)bytes;
        aligned = (start + MAPPING_ALIGNMENT - 1) & ~(MAPPING_ALIGNMENT - 1);
        n_before = aligned - start;
        if (n_before)
                (void)munmap(bytes, n_before);
        (void)munmap(pointer_to(aligned + n_bytes), MAPPING_ALIGNMENT - n_before);
        *ret_address = aligned;
        return 0;
}

/* The driver opens memory among the process's own mappings, mostly from the first ones downwards. So the window lies
 * partly above them, and mostly below. */
static int find_window(uint64_t n_bytes, uint64_t *ret_address)
{
        uint64_t end, n_above = n_bytes / WINDOW_ABOVE;
        void *bytes = mmap(NULL, MAPPING_ALIGNMENT, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (bytes == MAP_FAILED)
                return err_errno();
        (void)munmap(bytes, MAPPING_ALIGNMENT);
        end = ((uint64_t)(uintptr_t)bytes + n_above) & ~(MAPPING_ALIGNMENT - 1);
        *ret_address = end > n_bytes ? end - n_bytes : MAPPING_ALIGNMENT;
        return 0;
}

/* Are the blocks imported from the driver, and mapped at addresses that it has reserved? */
static bool is_drivers(const struct memory *memory)
{
        return memory->kind == GPUMEM_DEVICE || memory->pinned == MEMORY_VMM;
}

int mapping_reserve(const struct memory *memory, uint64_t n_bytes, uint64_t *ret_address)
{
        if (memory->is_ipc)
                return find_window(n_bytes, ret_address);
        if (!is_drivers(memory))
                return reserve_host(n_bytes, ret_address);
        if (!memory->cuda) {
                last_error_set(
                        GPUMEM_E_UNSUPPORTED,
                        "pinned memory of this daemon is made by the CUDA driver, and there is "
                        "none here; gpumemd --pinned-backing memfd serves programs without "
                        "CUDA");
                return GPUMEM_E_UNSUPPORTED;
        }
        return vmm_reserve(memory->cuda, n_bytes, ret_address);
}

void mapping_unreserve(const struct memory *memory, uint64_t address, uint64_t n_bytes)
{
        if (memory->is_ipc)
                return;
        if (is_drivers(memory))
                (void)vmm_unreserve(memory->cuda, address, n_bytes);
        else
                (void)munmap(pointer_to(address), n_bytes);
}

static int map_device(const struct memory *memory, uint64_t peers, uint64_t address,
                      uint64_t n_bytes, uint64_t handle)
{
        int r = vmm_map(memory->cuda, memory->ordinal, address, n_bytes, handle);

        if (r || !peers)
                return r;
        r = vmm_allow(memory->cuda, peers, address, n_bytes);
        if (r && vmm_unmap(memory->cuda, address, n_bytes))
                return -ENOTRECOVERABLE;
        return r;
}

/* A driver's fd is of a device, and the emulated driver's of a file. Any other fd that a daemon may send is kept from
 * the driver, which might act on it. */
static int check_drivers(int fd)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return err_errno();
        return S_ISCHR(st.st_mode) || S_ISREG(st.st_mode) ? 0 : -EPROTO;
}

/* The mapping keeps the memory alive: neither fd nor handle is needed after it. */
static int map_drivers(const struct memory *memory, uint64_t peers, uint64_t address,
                       uint64_t n_bytes, int fd, struct mapping_left *left)
{
        uint64_t handle;
        int r;

        r = check_drivers(fd);
        if (!r)
                r = vmm_import(memory->cuda, fd, &handle);
        if (r)
                return r;
        if (memory->kind == GPUMEM_DEVICE)
                r = map_device(memory, peers, address, n_bytes, handle);
        else
                r = vmm_map_host(memory->cuda, memory->node, address, n_bytes, handle);
        if (vmm_release(memory->cuda, handle))
                left->handle = handle;
        if (r == -ENOTRECOVERABLE) {
                left->is_mapped = true;
                return -EIO;
        }
        /* The driver's mapping may or may not be inherited; a forked child must not have it. */
        if (!r && memory->kind == GPUMEM_PINNED &&
            madvise(pointer_to(address), n_bytes, MADV_DONTFORK))
                log_debug("a block of pinned memory stays visible to forked children");
        return r;
}

/* Maps nothing there, but keeps the addresses reserved. */
static int unmap_host(uint64_t address, uint64_t n_bytes)
{
        void *bytes = mmap(pointer_to(address), n_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

        return bytes == MAP_FAILED ? err_errno() : 0;
}

static int register_host(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                         enum mapping *ret_mapping)
{
        int r = GPUMEM_E_NO_CONTEXT;

        if (memory->cuda)
                r = host_context_check(memory->cuda);
        if (r == GPUMEM_E_NO_CONTEXT) {
                *ret_mapping = MAPPING_PLAIN;
                return 0;
        }
        if (!r)
                r = host_register(memory->cuda, pointer_to(address), n_bytes);
        if (!r)
                *ret_mapping = MAPPING_REGISTERED;
        return r;
}

/* A forked child must not reach blocks that are leased to its parent. */
static int map_host(const struct memory *memory, uint64_t address, uint64_t n_bytes, int fd,
                    enum mapping *ret_mapping)
{
        void *bytes;
        int r;

        r = memfd_check(fd, n_bytes);
        if (r)
                return r;
        bytes = mmap(pointer_to(address), n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                     fd, 0);
        if (bytes == MAP_FAILED)
                return err_errno();
        r = madvise(bytes, n_bytes, MADV_DONTFORK) < 0 ? err_errno() : 0;
        if (!r)
                r = register_host(memory, address, n_bytes, ret_mapping);
        if (r)
                (void)unmap_host(address, n_bytes);
        return r;
}

int mapping_map(const struct memory *memory, uint64_t peers, uint64_t address, uint64_t n_bytes,
                int take_fd, enum mapping *ret_mapping, struct mapping_left *left)
{
        CLEANUP(closep)
        int fd = take_fd;
        int r;

        if (!is_drivers(memory))
                return map_host(memory, address, n_bytes, fd, ret_mapping);
        r = map_drivers(memory, peers, address, n_bytes, fd, left);
        if (!r)
                *ret_mapping = MAPPING_PLAIN;
        return r;
}

/* The handle keeps the memory meanwhile. So no step needs a mapping at both places, and after a failure there is one at
 * most to be undone. */
int mapping_move(const struct memory *memory, uint64_t peers, uint64_t from, uint64_t to,
                 uint64_t n_bytes, bool *ret_is_gone, struct mapping_left *left)
{
        uint64_t handle;
        int r = vmm_retain(memory->cuda, from, &handle);

        if (r)
                return r;
        r = vmm_unmap(memory->cuda, from, n_bytes);
        if (!r) {
                *ret_is_gone = true;
                r = map_device(memory, peers, to, n_bytes, handle);
        }
        if (vmm_release(memory->cuda, handle))
                left->handle = handle;
        if (r != -ENOTRECOVERABLE)
                return r;
        left->is_mapped = true;
        return -EIO;
}

int mapping_unmap(const struct memory *memory, uint64_t address, uint64_t n_bytes,
                  enum mapping mapping)
{
        int r;

        if (is_drivers(memory))
                return vmm_unmap(memory->cuda, address, n_bytes);
        if (mapping == MAPPING_REGISTERED) {
                r = host_unregister(memory->cuda, pointer_to(address), n_bytes);
                if (r)
                        return r;
        }
        return unmap_host(address, n_bytes);
}

int mapping_release_handle(const struct memory *memory, uint64_t handle)
{
        return vmm_release(memory->cuda, handle);
}
