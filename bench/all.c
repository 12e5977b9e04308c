/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "bench/apart.h"
#include "bench/commands.h"

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
                r = r ? r : r_one;
        }
        return r;
}
