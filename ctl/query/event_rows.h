/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon says has happened: the rows of EVENTS, all pages of them. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/connection/link.h"
#include "proto/listing.h"

struct event_rows {
        struct event_row *rows; /* texts end, and hold nothing that a terminal would carry out */
        uint32_t n;
        uint64_t next;   /* where to go on */
        uint64_t n_lost; /* since the daemon's start */
};

/* Which of them are wanted. All is 0: every one. */
struct event_rows_choice {
        uint32_t kinds; /* as in EVENTS; 0: all */
        uint32_t pid;   /* 0: any */
        bool has_uid;
        uint32_t uid;
        uint64_t last; /* so many at most; 0: all */
};

#define EVENT_ROWS_BIT(what) (UINT32_C(1) << LISTED_EVENT_##what)

/* `kinds` as in EVENTS. Untouched but for what is to be let go, unless 0. */
int event_rows_fetch(struct link *link, uint64_t since, uint32_t kinds,
                     struct event_rows *ret_happened);

void event_rows_deinit(struct event_rows *event_rows);

/* A row of other tenants, which is a sum. */
bool event_rows_is_sum(const struct event_row *row);

/* Keeps those that are wanted, in their order; of a choice that a sum says nothing of, by process, user or number, no
 * sum. What was fetched is of the right kinds. */
void event_rows_choose(struct event_rows *event_rows, const struct event_rows_choice *choice);

/* The bit of a kind, from a word of the column WHAT, or one with "-" for a space. 0: there is none. */
uint32_t event_rows_kind(const char *word);

/* All of them: "connected, turned-away, ...". Cut to fit. */
#define EVENT_ROWS_KINDS_MAX 512
void event_rows_list_kinds(char text[static EVENT_ROWS_KINDS_MAX]);

/* Whether one of them tells that the daemon is ending. */
bool event_rows_has_end(const struct event_rows *event_rows);

/* The same of what the daemon remembers. */
int event_rows_fetch_end(struct link *link, bool *ret_is_ending);

/* What is said then, of the daemon. */
#define EVENT_ROWS_END "gpumemd is ending and leases nothing more"

#define EVENT_ROWS_TIME_MAX 32

/* When it was, the last time, by the clock of the daemon's log: "2026-11-22 12:40:34.123"; "-" for a sum. */
void event_rows_time(const struct event_row *row, char ret_text[static EVENT_ROWS_TIME_MAX]);

/* Its fields, and "time" in UTC as RFC 3339 has it; null for a sum. */
struct json_t;
struct json_t *event_rows_to_json(const struct event_row *row);
