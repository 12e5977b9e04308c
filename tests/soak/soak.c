/* SPDX-License-Identifier: Apache-2.0 */
/* gpumem-soak INDEX SEED COUNTS: a worker, until SIGTERM. */
#include <stdlib.h>

#include "tests/soak/worker.h"

int main(int argc, char **argv)
{
        if (argc != 4)
                return EXIT_FAILURE;
        worker_run((unsigned)strtoul(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), argv[3]);
        return EXIT_SUCCESS;
}
