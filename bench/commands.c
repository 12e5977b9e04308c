#include "bench/commands.h"

#include <limits.h>

#include "base/err.h"

const struct command commands[] = {
        {"hot", "alloc and free, 64 live of 16 sizes, 512 B to 256 MiB", 0, 0, command_hot},
        {"random", "replace one of 1000 live, 512 B to 64 MiB", 0, 0, command_random},
        {"all", "all of these; traces are FILE...", 0, UINT_MAX, command_all},
};
const unsigned n_commands = ARRAY_SIZE(commands);
