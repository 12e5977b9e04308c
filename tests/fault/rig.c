/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fault/rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/live/support/daemon.h"
#include "tests/random.h"
#include "tests/suite.h"

struct fault_page *rig_page;
void (*rig_become)(enum fault_role role);
uint64_t rig_seed;

static char page_path[] = "/dev/shm/gpumem-fault-XXXXXX";

const char *const rig_role_names[] = {"none", "daemon", "client"};

const char *const rig_call_names[] = {
        "memory",
        "fcntl",
        "open",
#define CALL(type, name, failure, error, other, parameters, arguments) #name,
#include "tests/fault/calls.def"
#undef CALL
        "driver",
};

void rig_arm(const struct fault *fault)
{
        memset((void *)rig_page->n_calls, 0, sizeof(rig_page->n_calls));
        atomic_store(&rig_page->n_fired, 0);
        atomic_store(&rig_page->call, fault->call);
        atomic_store(&rig_page->nth, fault->nth);
        atomic_store(&rig_page->is_other, fault->result);
        atomic_store(&rig_page->armed, fault->role);
}

void rig_disarm(void)
{
        atomic_store(&rig_page->armed, FAULT_NOBODY);
}

bool rig_is_all(void)
{
        const char *which = getenv("GPUMEM_TEST_FAULTS");

        return which && strcmp(which, "all") == 0;
}

/* The page must be there before the library is loaded, and this process has loaded it only if it was told to. */
static int begin_anew(char **arguments)
{
        int fd = mkstemp(page_path);

        if (fd >= 0 && ftruncate(fd, sizeof(struct fault_page)) == 0 &&
            setenv("GPUMEM_TEST_FAULT_PAGE", page_path, 1) == 0 &&
            setenv("LD_PRELOAD", getenv("GPUMEM_TEST_FAULT_LIBRARY"), 1) == 0)
                (void)execv("/proc/self/exe", arguments);
        perror("LD_PRELOAD");
        return EXIT_FAILURE;
}

/* It is there, and so is the page. */
static bool meet_library(void)
{
        struct fault_page **page = dlsym(RTLD_DEFAULT, "fault_page");

        rig_become = (__typeof__(rig_become))dlsym(RTLD_DEFAULT, "fault_become");
        rig_page = page ? *page : NULL;
        return rig_page && rig_become;
}

int rig_run(Suite *suite, char **arguments)
{
        int status;

        if (!machine_is_emulated()) {
                (void)puts("1..0 # SKIP needs faults of the emulated driver");
                return EXIT_SUCCESS;
        }
        if (!getenv("GPUMEM_TEST_FAULT_PAGE"))
                return begin_anew(arguments);
        if (!meet_library())
                return EXIT_FAILURE;
        rig_seed = test_random_begin().state;
        status = run_suite(suite);
        (void)unlink(getenv("GPUMEM_TEST_FAULT_PAGE"));
        return status;
}
