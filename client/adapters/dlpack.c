/* SPDX-License-Identifier: Apache-2.0 */
/* Describes memory for DLPack, version 1.0: https://dmlc.github.io/dlpack/latest/c_api.html */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/adapters/adapter.h"
#include "client/adapters/python.h"
#include "gpumem-adapters.h"
#include "gpumem.h"

#define MAJOR_VERSION 1
#define N_DIMS_MAX    64

enum { DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3 };

struct dlpack_tensor {
        void *data;
        int32_t device_type, device_id;
        int32_t n_dims;
        uint8_t code, bits;
        uint16_t lanes;
        int64_t *shape, *strides;
        uint64_t n_offset_bytes;
};

/* The struct before version 1. */
struct managed_tensor {
        struct dlpack_tensor tensor;
        void *manager;
        void (*deleter)(struct managed_tensor *tensor);
};

struct DLManagedTensorVersioned {
        uint32_t major, minor;
        void *manager;
        void (*deleter)(struct DLManagedTensorVersioned *tensor);
        uint64_t flags;
        struct dlpack_tensor tensor;
};

struct managed {
        struct DLManagedTensorVersioned tensor;
        struct gpumem_client *client;
        void *pointer; /* of the memory, also where the tensor has no elements, and so no address */
        int64_t dims[]; /* the shape, then the strides */
};

static void end(struct DLManagedTensorVersioned *tensor)
{
        struct managed *managed = tensor->manager;

        if (gpumem_free_later(managed->client, managed->pointer))
                adapter_count_failure();
        free(managed);
}

/* Returns the number of elements, with strides for contiguous memory; -1: the numbers are not valid, or too large. */
static int64_t fill_dims(struct managed *managed, int32_t n_dims, const int64_t *shape)
{
        int64_t n = 1;

        if (n_dims) /* else `shape` may be NULL */
                memcpy(managed->dims, shape, (size_t)n_dims * sizeof(*shape));
        for (int32_t i = n_dims - 1; i >= 0; i--) {
                managed->dims[n_dims + i] = n;
                if (shape[i] < 0 || __builtin_mul_overflow(n, shape[i], &n))
                        return -1;
        }
        return n;
}

static int check_type(const struct gpumem_dlpack_type *type, int32_t n_dims)
{
        bool is_type = type->bits && type->bits % 8 == 0 && type->lanes;

        return is_type && n_dims >= 0 && n_dims <= N_DIMS_MAX ? 0 : GPUMEM_E_BAD_REQUEST;
}

static void fill(struct managed *managed, const struct gpumem_info *info, int32_t n_dims,
                 const struct gpumem_dlpack_type *type)
{
        bool is_device = info->kind == GPUMEM_DEVICE;

        managed->tensor = (struct DLManagedTensorVersioned){
                .major = MAJOR_VERSION,
                .manager = managed,
                .deleter = end,
                .tensor = {.data = info->base,
                           .device_type = is_device ? DLPACK_CUDA : DLPACK_CUDA_HOST,
                           .device_id = is_device ? info->place : 0,
                           .n_dims = n_dims,
                           .code = type->code,
                           .bits = type->bits,
                           .lanes = type->lanes,
                           .shape = managed->dims,
                           .strides = managed->dims + n_dims}};
}

int gpumem_to_dlpack(struct gpumem_client *client, void *pointer, int32_t n_dims,
                     const int64_t *shape, const struct gpumem_dlpack_type *type,
                     struct DLManagedTensorVersioned **ret_tensor)
{
        struct gpumem_info info = {.struct_size = sizeof(info)};
        struct managed *managed;
        int64_t n_elements, n_bytes;
        int r = gpumem_describe(client, pointer, &info);

        if (!r && info.base != pointer)
                r = GPUMEM_E_NOT_OURS;
        if (!r && info.is_attached)
                r = GPUMEM_E_ATTACHED;
        if (!r)
                r = check_type(type, n_dims);
        if (r)
                return r;
        managed = calloc(1, sizeof(*managed) + 2 * (size_t)n_dims * sizeof(managed->dims[0]));
        if (!managed)
                return -ENOMEM;
        managed->client = client;
        n_elements = fill_dims(managed, n_dims, shape);
        if (n_elements < 0 ||
            __builtin_mul_overflow(n_elements, type->bits / 8 * type->lanes, &n_bytes) ||
            (uint64_t)n_bytes > info.n_requested_bytes) {
                free(managed);
                return GPUMEM_E_BAD_REQUEST;
        }
        fill(managed, &info, n_dims, type);
        managed->pointer = pointer;
        if (!n_bytes) /* then DLPack wants NULL */
                managed->tensor.tensor.data = NULL;
        *ret_tensor = &managed->tensor;
        return 0;
}

/* A tensor over memory of a Python object. The capsule owns it until a consumer takes it and renames the capsule. */
struct exported {
        union {
                struct managed_tensor old;
                struct DLManagedTensorVersioned versioned;
        };
        void *owner;    /* a reference */
        int64_t dims[]; /* the shape, then the strides */
};

#define NAME           "dltensor"
#define NAME_VERSIONED "dltensor_versioned"

/* Called by the thread that has the GIL, perhaps while an exception of its own is pending. */
static void drop(const struct python *python, struct exported *exported)
{
        python->unref(exported->owner);
        free(exported);
}

/* Called by any thread. Consumers may outlive the interpreter: then the owner must not be touched. */
static void end_exported(struct exported *exported)
{
        const struct python *python = python_find();
        int state;

        if (!python || !python->is_initialized())
                return;
        state = python->lock();
        drop(python, exported);
        python->unlock(state);
}

static void end_old(struct managed_tensor *tensor)
{
        end_exported(tensor->manager);
}

static void end_versioned(struct DLManagedTensorVersioned *tensor)
{
        end_exported(tensor->manager);
}

static void end_capsule(void *capsule)
{
        const struct python *python = python_find();

        if (python->capsule_is_valid(capsule, NAME_VERSIONED))
                drop(python, python->capsule_pointer(capsule, NAME_VERSIONED));
        else if (python->capsule_is_valid(capsule, NAME))
                drop(python, python->capsule_pointer(capsule, NAME));
}

static struct exported *export(void *owner, const struct dlpack_tensor *tensor, bool is_versioned)
{
        size_t n_bytes = (size_t)tensor->n_dims * sizeof(int64_t);
        struct exported *exported = calloc(1, sizeof(*exported) + 2 * n_bytes);
        struct dlpack_tensor own = *tensor;

        if (!exported)
                return NULL;
        exported->owner = owner;
        own.shape = exported->dims;
        own.strides = exported->dims + tensor->n_dims;
        if (n_bytes) {
                memcpy(own.shape, tensor->shape, n_bytes);
                memcpy(own.strides, tensor->strides, n_bytes);
        }
        if (is_versioned)
                exported->versioned = (struct DLManagedTensorVersioned){.major = MAJOR_VERSION,
                                                                        .manager = exported,
                                                                        .deleter = end_versioned,
                                                                        .tensor = own};
        else
                exported->old = (struct managed_tensor){
                        .tensor = own, .manager = exported, .deleter = end_old};
        return exported;
}

void *gpumem_python_capsule(void *owner, const void *tensor, int is_versioned)
{
        const struct python *python = python_find();
        struct exported *exported;
        void *capsule;

        if (!python)
                return NULL;
        exported = export(owner, tensor, is_versioned);
        if (!exported)
                return python->no_memory();
        capsule = python->capsule_new(exported, is_versioned ? NAME_VERSIONED : NAME, end_capsule);
        if (capsule)
                python->ref(owner);
        else
                free(exported);
        return capsule;
}
