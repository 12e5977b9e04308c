/* The calling thread's stack of current contexts; its top is the current one. No locks: a stack is
 * its thread's own. */
#pragma once

#include <cuda.h>
#include <stdint.h>

struct context;

/* The current context, or NULL, and the id that it had when it became current. */
struct context *current_get(uint64_t *ret_id);

/* CUDA_ERROR_OUT_OF_MEMORY: the stack is full. */
CUresult current_push(struct context *context, uint64_t id);

/* Takes the context off the top, if it is there. */
void current_forget(const struct context *context);
