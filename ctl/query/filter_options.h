/* The options of commands that list rows: which, and in which order. A command whose own memory is a
 * struct view names them in its table and hands them to view_take. One thread. */
#pragma once

#include "ctl/core/command.h"
#include "ctl/query/filter.h"

enum view_option {
        VIEW_PID = OPTION_OWN,
        VIEW_UID,
        VIEW_BLOCK_STATE,
        VIEW_CLIENT_STATE,
        VIEW_MIN_SIZE,
        VIEW_SORT,
        VIEW_REVERSE,
};

#define VIEW_OPTION_PID                                  \
        {                                                \
                "pid", required_argument, NULL, VIEW_PID \
        }
#define VIEW_OPTION_UID                                  \
        {                                                \
                "uid", required_argument, NULL, VIEW_UID \
        }
#define VIEW_OPTION_BLOCK_STATE                                    \
        {                                                          \
                "state", required_argument, NULL, VIEW_BLOCK_STATE \
        }
#define VIEW_OPTION_CLIENT_STATE                                    \
        {                                                           \
                "state", required_argument, NULL, VIEW_CLIENT_STATE \
        }
#define VIEW_OPTION_MIN_SIZE                                       \
        {                                                          \
                "min-size", required_argument, NULL, VIEW_MIN_SIZE \
        }
#define VIEW_OPTION_SORT                                   \
        {                                                  \
                "sort", required_argument, NULL, VIEW_SORT \
        }
#define VIEW_OPTION_REVERSE                                \
        {                                                  \
                "reverse", no_argument, NULL, VIEW_REVERSE \
        }

/* As struct command's `take`. */
int view_take(struct view *view, const struct row_list *list, int id, const char *value);
