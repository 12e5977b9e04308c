/* SPDX-License-Identifier: Apache-2.0 */
/* The options of commands that list rows: which, and in which order. A command whose own memory is a
 * struct filter names them in its table and hands them to filter_take. One thread. */
#pragma once

#include "ctl/core/command.h"
#include "ctl/query/filter.h"

enum filter_option {
        FILTER_PID = OPTION_OWN,
        FILTER_UID,
        FILTER_BLOCK_STATE,
        FILTER_CLIENT_STATE,
        FILTER_MIN_SIZE,
        FILTER_SORT,
        FILTER_REVERSE,
};

#define FILTER_OPTION_PID                                  \
        {                                                  \
                "pid", required_argument, NULL, FILTER_PID \
        }
#define FILTER_OPTION_UID                                  \
        {                                                  \
                "uid", required_argument, NULL, FILTER_UID \
        }
#define FILTER_OPTION_BLOCK_STATE                                    \
        {                                                            \
                "state", required_argument, NULL, FILTER_BLOCK_STATE \
        }
#define FILTER_OPTION_CLIENT_STATE                                    \
        {                                                             \
                "state", required_argument, NULL, FILTER_CLIENT_STATE \
        }
#define FILTER_OPTION_MIN_SIZE                                       \
        {                                                            \
                "min-size", required_argument, NULL, FILTER_MIN_SIZE \
        }
#define FILTER_OPTION_SORT                                   \
        {                                                    \
                "sort", required_argument, NULL, FILTER_SORT \
        }
#define FILTER_OPTION_REVERSE                                \
        {                                                    \
                "reverse", no_argument, NULL, FILTER_REVERSE \
        }

/* As struct command's `take`. */
int filter_take(struct filter *filter, const struct row_list *list, int id, const char *value);
