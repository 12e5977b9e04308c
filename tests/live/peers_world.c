/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/live/peers_world.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/demo/gpu.h"
#include "tests/live/daemon.h"
#include "tests/suite.h"

#define TEXT_OF(name) #name
#define NAME_OF(call) TEXT_OF(call)

struct gpu *gpus[2];
struct cuda cuda;
struct gpumem_client *client;

static __typeof__(cuMemGetAccess) *get_access; /* of no use to the library */

static void load_more(void)
{
        void *library = dlopen(cuda_library_name(NULL), RTLD_NOW);

        ck_assert_ptr_nonnull(library);
        get_access = (__typeof__(get_access))dlsym(library, NAME_OF(cuMemGetAccess));
        ck_assert_ptr_nonnull(get_access);
}

void peers_open(unsigned n_gpus)
{
        char reason[CUDA_REASON_MAX];

        for (unsigned i = 0; i < n_gpus; i++)
                ck_assert_int_eq(gpu_new((int)i, &gpus[i]), 0);
        ck_assert_int_eq(cuda_load(NULL, &cuda, reason), 0);
        load_more();
        ck_assert_int_eq(gpumem_connect(NULL, &client), 0);
}

void peers_close(unsigned n_gpus)
{
        gpumem_disconnect(client);
        for (unsigned i = 0; i < n_gpus; i++)
                gpus[i] = gpu_free(gpus[i]);
}

struct gpumem_request on(unsigned device, uint64_t n_bytes)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        return (struct gpumem_request){.struct_size = sizeof(struct gpumem_request),
                                       .kind = GPUMEM_DEVICE,
                                       .place = (int32_t)device,
                                       .stream = gpu_stream(gpus[device]),
                                       .n_bytes = n_bytes};
}

void *must_alloc(unsigned device, uint64_t n_bytes, uint32_t flags)
{
        struct gpumem_request request = on(device, n_bytes);
        void *pointer;
        int r;

        request.flags = flags;
        r = gpumem_alloc(client, &request, &pointer);
        ck_assert_msg(r == 0, "%s", gpumem_strerror(r));
        return pointer;
}

void write_by(unsigned device, void *pointer, unsigned char byte)
{
        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_fill(gpus[device], pointer, byte, N_BYTES), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
}

void read_by(unsigned device, const void *pointer, unsigned char byte)
{
        unsigned char *staged;
        uint64_t n_wrong = 0;

        ck_assert_int_eq(gpu_use(gpus[device]), 0);
        ck_assert_int_eq(gpu_stage(gpus[device], N_BYTES, (void **)&staged), 0);
        memset(staged, ~byte, N_BYTES);
        ck_assert_int_eq(gpu_copy_to_host(gpus[device], staged, pointer, N_BYTES), 0);
        ck_assert_int_eq(gpu_synchronize(gpus[device]), 0);
        for (uint64_t i = 0; i < N_BYTES; i++)
                n_wrong += staged[i] != byte;
        ck_assert_uint_eq(n_wrong, 0);
}

void check_both(void *pointer)
{
        write_by(1, pointer, 0x51);
        read_by(0, pointer, 0x51);
        write_by(0, pointer, 0x52);
        read_by(1, pointer, 0x52);
}

bool is_reached(const void *pointer, int device)
{
        CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
        unsigned long long flags = 0;

        ck_assert_int_eq(get_access(&flags, &location, (CUdeviceptr)(uintptr_t)pointer),
                         CUDA_SUCCESS);
        return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

void must_free(unsigned device, void *pointer)
{
        ck_assert_int_eq(gpumem_free(client, pointer, gpu_stream(gpus[device])), 0);
}
