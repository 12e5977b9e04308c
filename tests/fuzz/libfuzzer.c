/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a target for clang's fuzzer, and says at the end how many inputs were taken. */
#include <inttypes.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static uint64_t n_runs, n_taken;

static void say_counts(void)
{
        (void)fprintf(stderr, "%s: %" PRIu64 " runs, %" PRIu64 " taken\n", fuzz_name, n_runs,
                      n_taken);
}

__attribute__((visibility("default"))) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
        (void)argc;
        (void)argv;
        return atexit(say_counts);
}

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *bytes,
                                                                  size_t n_bytes)
{
        n_runs++;
        n_taken += fuzz_run(bytes, n_bytes) == FUZZ_TAKEN;
        return 0;
}
