/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/query/filter_options.h"

#include <string.h>

#include "base/err.h"
#include "base/size.h"
#include "ctl/output/parse.h"

#define COLUMNS_MAX 512

static int take_pid(struct filter *filter, const struct row_list *list, const char *text)
{
        uint64_t pid;

        /* 0 is the pid of nobody: of a block that is not charged, of other tenants. */
        if (parse_number(text, &pid) || pid == 0 || pid > INT32_MAX)
                return parse_refuse("--pid", text, "process", "a process's number");
        filter_add(filter, list, "pid", FILTER_EQUAL, pid);
        return 0;
}

static int take_uid(struct filter *filter, const struct row_list *list, const char *text)
{
        uint32_t uid;

        if (parse_user(text, &uid))
                return parse_refuse("--uid", text, "user", "a uid, or the name of a user");
        filter_add(filter, list, "uid", FILTER_EQUAL, uid);
        return 0;
}

static int take_state(struct filter *filter, const struct row_list *list, const char *text,
                      const char *(*name)(uint64_t state), uint64_t last, const char *allowed)
{
        for (uint64_t state = 1; state <= last; state++) {
                if (strcmp(text, name(state)) == 0) {
                        filter_add(filter, list, "state", FILTER_EQUAL, state);
                        return 0;
                }
        }
        return parse_refuse("--state", text, "state", allowed);
}

/* A sum says nothing of each of several blocks. */
static int take_min_size(struct filter *filter, const struct row_list *list, const char *text)
{
        uint64_t n_bytes;

        if (size_parse(text, &n_bytes))
                return parse_refuse("--min-size", text, "size", "bytes, or with a unit: 64MiB");
        filter_add(filter, list, "bytes", FILTER_AT_LEAST, n_bytes);
        filter_add(filter, list, "blocks", FILTER_EQUAL, 1);
        return 0;
}

static int take_sort(struct filter *filter, const struct row_list *list, const char *text)
{
        char columns[COLUMNS_MAX];

        if (filter_set_sort(filter, list, text) == 0)
                return 0;
        filter_list_columns(list, columns, sizeof(columns));
        return parse_refuse("--sort", text, "column", columns);
}

int filter_take(struct filter *filter, const struct row_list *list, int id, const char *value)
{
        switch ((enum filter_option)id) {
        case FILTER_PID:
                return take_pid(filter, list, value);
        case FILTER_UID:
                return take_uid(filter, list, value);
        case FILTER_BLOCK_STATE:
                return take_state(filter, list, value, listed_block_name, LISTED_IDLE,
                                  "leased, idle, cached, lingering, others");
        case FILTER_CLIENT_STATE:
                return take_state(filter, list, value, listed_client_name, LISTED_OTHERS,
                                  "ready, left, orphaned, others");
        case FILTER_MIN_SIZE:
                return take_min_size(filter, list, value);
        case FILTER_SORT:
                return take_sort(filter, list, value);
        case FILTER_REVERSE:
                filter->is_reverse = true;
                return 0;
        }
        return -EINVAL;
}
