/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the driver's contract share. The same programs run against the emulated driver and against
 * libcuda.so.1: GPUMEM_CUDA_LIBRARY says which. They may rely on nothing that only one of them does.
 *
 * Check runs every test in a process of its own, which loads the driver and does not initialise it: a test that needs
 * further processes starts them first, since a child of an initialised process has no driver. For the emulator each
 * test has a machine of its own, two devices of 1 GiB, removed when the program ends. */
#pragma once

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/suite.h"

/* Check notes every assertion that holds in a file that all processes of a test share; one that is killed, or two at
 * once, spoil it. Failures are noted all the same. */
#define _mark_point(file, line) ((void)(file), (void)(line))

#define CONTRACT_GRANULE ((size_t)2 << 20)
#define CONTRACT_OPTIONS "devices=2,bytes=1GiB,reclaim_ms=50"

/* How long to watch for what must come about, before a test gives up. */
#define CONTRACT_PATIENCE_MS 20000

struct contract_calls {
#define CUDA_REQUIRED(call) __typeof__(call) *call;
#define CUDA_OPTIONAL(call) __typeof__(call) *call;
#include "driver/cuda.def"
#include "tests/contract/calls.def"
#undef CUDA_REQUIRED
#undef CUDA_OPTIONAL
};

/* Filled before every test. A CUDA_OPTIONAL call that the driver lacks is NULL. */
extern struct contract_calls cu;

#define ck_cuda(expected, call) ck_assert_int_eq((int)(call), (int)(expected))
#define ck_ok(call)             ck_cuda(CUDA_SUCCESS, call)

/* Memory of the virtual memory interface, at an address of its own. */
struct contract_block {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address;
        size_t n_bytes;
};

/* A process of its own, started before this one initialised its driver. */
struct contract_peer {
        pid_t pid;
        int socket; /* the child's is its function's argument */
};

/* Runs the suite; the exit status. */
int contract_main(Suite *suite);

/* Fills `cu`, and says what the machine is. */
void contract_setup(void);

/* TESTS_MAIN for tests that find `cu` filled. */
#define CONTRACT_MAIN(...)                                                              \
        int main(void)                                                                  \
        {                                                                               \
                return run_all_tests(&(const struct test_case){.limit_s = 60,           \
                                                               .start = contract_setup, \
                                                               .name = __VA_ARGS__},    \
                                     contract_main);                                    \
        }

/* Whether the driver has the call, or cannot be asked. For main, before any test: a child asks, so that this process
 * does not load the driver. */
int contract_has(const char *call);

/* What the driver exports by that very name, or NULL. */
void *contract_symbol(const char *name);

/* Root may become other users; no other user may. */
bool is_root(void);
#define NEEDS_ROOT .can_run = is_root, .needs = "root"

/* The machine's options, for processes with more to say than CONTRACT_OPTIONS; before cuInit. */
void contract_configure(const char *options);

void contract_init(void);

/* cuInit, and device 0's primary context made current. */
CUcontext contract_context(void);

CUmemAllocationProp contract_properties(CUmemAllocationHandleType handle_types);
CUmemGenericAllocationHandle contract_create(size_t n_bytes, CUmemAllocationHandleType types);
int contract_export(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle contract_import(int fd);

/* At a fresh address, with access from device 0. */
struct contract_block contract_map(CUmemGenericAllocationHandle handle, size_t n_bytes);
void contract_unmap(const struct contract_block *block);
CUresult contract_set_access(CUdeviceptr address, size_t n_bytes, CUmemAccess_flags flags);

/* A byte by way of the device. */
void contract_write(CUdeviceptr address, unsigned char byte);
unsigned char contract_read(CUdeviceptr address);

size_t contract_free_bytes(void);

/* These begin with contract_context, on a thread without a current context. */
CUstream contract_stream(unsigned flags);
CUevent contract_event(unsigned flags);
CUdeviceptr contract_alloc(size_t n_bytes);
/* Zeros in pinned memory, so that copies are asynchronous. */
unsigned char *contract_pinned(size_t n_bytes);

struct contract_peer contract_start(void (*function)(int socket));
void contract_kill(const struct contract_peer *peer);

/* Waits for the end, which must be a good one. */
void contract_finish(const struct contract_peer *peer);

/* A byte and a fd (-1: none) to and from the other side, which is waited for with patience. */
void contract_send(int socket, char byte, int fd);
int contract_receive(int socket, char byte);

/* Host functions that hold a stream up until it is let go. */
struct contract_gate {
        int opened; /* both atomic */
        int reached;
};
void contract_hold(CUstream stream, struct contract_gate *gate);
void contract_await(const struct contract_gate *gate);
void contract_open(struct contract_gate *gate);

/* Opens the gate from another thread, a while after the caller is likely to be in its next call: for calls that must
 * not return before. */
void contract_open_later(struct contract_gate *gate);

/* Between two looks at something that is not there yet; fails the test when patience is over. */
void contract_pause(int *n_looks);
