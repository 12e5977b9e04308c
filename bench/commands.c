/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands.h"

#include <stdio.h>

#include "base/err.h"
#include "bench/apart.h"

const struct command commands[] = {
        {"hot", "alloc and free, 64 live of 16 sizes, 512 B to 256 MiB", 0, 0, command_hot},
        {"cold", "alloc and free of 1 MiB, each after 32 MiB of other writes", 0, 0, command_cold},
        {"paced", "pairs after pauses of 1, 10 and 100 us; a loop like a training's", 0, 0,
         command_paced},
        {"capture", "hot inside a capture, beside outside", 0, 0, command_capture},
        {"random", "replace one of 1000 live, 512 B to 64 MiB", 0, 0, command_random},
        {"growth", "the same with 100 to 1,000,000 live, to 8 KiB each", 0, 0, command_growth},
        {"metadata", "memory and statistics of bookkeeping, 64 KiB an allocation", 0, 0,
         command_metadata},
        {"threads", "hot in two threads, beside one", 0, 0, command_threads},
        {"streams", "pairs in 1000 streams in turn, beside one", 0, 0, command_streams},
        {"lease", "a lease and its return, beside a bare server", 0, 0, command_lease},
        {"idle", "another process's idle block; from the end of work to idle", 0, 0, command_idle},
        {"pinned", "pinned memory: pairs, and the first bytes", 0, 0, command_pinned},
        {"lookups", "the driver's calls that are in every hit", 0, 0, command_lookups},
        {"trace", "what a trace would hold, hit and lease; --real: with gpumemd, too", 1, 1,
         command_trace},
        {"traces", "several, and their means; with 4 streams, with 1 and 10 ms lag", 1, FILES_MAX,
         command_traces},
        {"patterns", "patterns that fragment memory, with 1 and 4 streams; --seed FIRST", 0, 0,
         command_patterns},
        {"node", "traces in processes at once, worst of 8 shifts", 2, FILES_MAX, command_node},
        {"peers", "beside PyTorch, CuPy and the driver; --peers, --only", 0, FILES_MAX,
         command_peers},
        {"plot", "what peers --output wrote into FILE..., as an SVG picture", 1, FILES_MAX,
         command_plot},
        {"all", "all but peers and plot; traces are FILE...", 0, FILES_MAX, command_all},
};
const unsigned n_commands = ARRAY_SIZE(commands);

int command_all(const struct options *options, struct rows *rows)
{
        int r = 0;

        for (unsigned i = 0; i < n_commands; i++) {
                int r_one;

                if (commands[i].run == command_all || commands[i].run == command_trace ||
                    commands[i].run == command_peers || commands[i].run == command_plot ||
                    commands[i].n_files_min > options->n_files)
                        continue;
                (void)fprintf(stderr, "gpumem-bench: %s\n", commands[i].name);
                r_one = apart_measure(commands[i].run, options, rows);
                if (r_one)
                        (void)fprintf(stderr, "gpumem-bench: %s: measurement failed\n",
                                      commands[i].name);
                r = r ? r : r_one;
        }
        return r;
}
