/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for Python programs that call at each allocation: Python's own calling convention costs them a tenth of
 * what ctypes does. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "client/adapters/adapter.h"
#include "client/adapters/python.h"
#include "gpumem-adapters.h"
#include "gpumem.h"

/* Reads `n` whole numbers. Returns false with an exception of Python's. */
static bool numbers(const struct python *python, void *const *arguments, ptrdiff_t n_arguments,
                    int n, uint64_t ret_numbers[])
{
        if (n_arguments != n) {
                python->raise(*python->type_error, "a wrong number of arguments");
                return false;
        }
        for (int i = 0; i < n; i++) {
                ret_numbers[i] = python->number_read(arguments[i]);
                if (ret_numbers[i] == UINT64_MAX && python->pending())
                        return false;
        }
        return true;
}

static void *alloc(void *self, void *const *arguments, ptrdiff_t n_arguments)
{
        const struct python *python = python_find();
        struct python_lock lock;
        uint64_t number[3];
        void *pointer = NULL;
        int r = 0;

        (void)self;
        if (!numbers(python, arguments, n_arguments, 3, number))
                return NULL;
        python_lock_lend(&lock);
        if (number[1] > INT32_MAX)
                r = GPUMEM_E_BAD_REQUEST;
        else if (number[0])
                r = adapter_alloc(number[0], (int)number[1], (void *)(uintptr_t)number[2],
                                  &pointer); /* NOLINT */
        python_lock_take_again(&lock);
        return python->number_new(r ? r : (long long)(uintptr_t)pointer);
}

static void *free_at(void *self, void *const *arguments, ptrdiff_t n_arguments)
{
        const struct python *python = python_find();
        struct python_lock lock;
        uint64_t number[2];
        int r;

        (void)self;
        if (!numbers(python, arguments, n_arguments, 2, number))
                return NULL;
        python_lock_lend(&lock);
        r = gpumem_free(NULL, (void *)(uintptr_t)number[0],
                        (void *)(uintptr_t)number[1]); /* NOLINT */
        python_lock_take_again(&lock);
        return python->number_new(r);
}

static const struct python_method methods[] = {
        {"alloc", alloc, PYTHON_FASTCALL,
         "alloc(n_bytes, device, stream) -> address; below 4096: why not"},
        {"free", free_at, PYTHON_FASTCALL, "free(address, stream) -> 0; else why not"},
};

void *gpumem_python_function(const char *name)
{
        const struct python *python = python_find();

        if (!python)
                return NULL;
        for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
                if (strcmp(methods[i].name, name) == 0)
                        return python->function_new(&methods[i], NULL, NULL);
        }
        python->raise(*python->type_error, "there is no function of that name");
        return NULL;
}
