/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *self;

/* The library is where this function is. */
static void self_find(void)
{
        Dl_info info;

        if (dladdr(&self, &info))
                self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void *library_self(void)
{
        (void)pthread_once(&once, self_find);
        return self;
}
