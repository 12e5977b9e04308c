/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever the daemon lists, as a table or as JSON, after the descriptions in proto/listing.h. One thread. */
#pragma once

#include "ctl/core/command.h"
#include "ctl/query/filter.h"
#include "proto/listing.h"

/* One listing: what is asked, and how the answer is read. */
struct listing {
        const char *name;
        enum message_kind request;
        enum message_kind reply;
        const struct row_list *list;
};

extern const struct listing listing_clients, listing_blocks, listing_tenants;

struct listed {
        uint32_t n_rows;
        char *rows; /* of the list's n_row_bytes each; texts hold nothing that a terminal would carry out */
};

void listed_deinit(struct listed *listed);

/* A row's texts hold nothing after that that a terminal would carry out, and end. */
void listing_clean(const struct row_list *list, char *row);

/* What stands in JSON; of a row that is clean. */
struct json_t;
struct json_t *listing_row_to_json(const struct row_list *list, const char *row);

/* The request's own fields are set. */
int listing_fetch(struct link *link, const struct listing *listing, struct frame *request,
                  struct listed *ret_listed);

/* Fetches, and prints what the filter shows; returns the exit status. Without --wide the table has the fields that
 * `narrow` names, which ends with NULL. */
int listing_show(struct link *link, const struct listing *listing, const char *const *narrow,
                 struct frame *request, const struct arguments *arguments,
                 const struct filter *filter);
