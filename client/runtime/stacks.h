/* SPDX-License-Identifier: Apache-2.0 */
/* Call stacks, for GPUMEM_DEBUG=stacks and leaks. Any thread; no lock is held. */
#pragma once

#define STACK_FRAMES 24

struct stack {
        int n_frames; /* the call of the library first */
        void *frames[STACK_FRAMES];
};

void stack_take(struct stack *ret_stack);

/* Writes it to stderr, a line for each frame: the function, as far as dladdr knows it, and its file. */
void stack_tell(const char *title, const struct stack *stack);

/* As memcmp: 0 for the same calls. */
int stack_compare(const struct stack *one, const struct stack *other);
