/* What the daemon says has happened: the rows of EVENTS, all pages of them. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/link.h"
#include "proto/listing.h"

struct happened {
        struct event_row *rows; /* texts end, and hold nothing that a terminal would carry out */
        uint32_t n;
        uint64_t next;   /* where to go on */
        uint64_t n_lost; /* since the daemon's start */
};

/* Which of them are wanted. All is 0: every one. */
struct happened_choice {
        uint32_t kinds; /* as in EVENTS; 0: all */
        uint32_t pid;   /* 0: any */
        bool has_uid;
        uint32_t uid;
        uint64_t last; /* so many at most; 0: all */
};

#define HAPPENED_BIT(what) (UINT32_C(1) << LISTED_EVENT_##what)

/* `kinds` as in EVENTS. Untouched but for what is to be let go, unless 0. */
int happened_fetch(struct link *link, uint64_t since, uint32_t kinds,
                   struct happened *ret_happened);

void happened_deinit(struct happened *happened);

/* A row of other tenants, which is a sum. */
bool happened_is_sum(const struct event_row *row);

/* Keeps those that are wanted, in their order; of a choice that a sum says nothing of, by process, user or number, no
 * sum. What was fetched is of the right kinds. */
void happened_choose(struct happened *happened, const struct happened_choice *choice);

/* The bit of a kind, from a word of the column WHAT, or one with "-" for a space. 0: there is none. */
uint32_t happened_kind(const char *word);

/* All of them: "connected, turned-away, ...". Cut to fit. */
#define HAPPENED_KINDS_MAX 512
void happened_list_kinds(char text[static HAPPENED_KINDS_MAX]);

/* Whether one of them tells that the daemon is ending. */
bool happened_has_end(const struct happened *happened);

/* The same of what the daemon remembers. */
int happened_fetch_end(struct link *link, bool *ret_is_ending);

/* What is said then, of the daemon. */
#define HAPPENED_END "gpumemd is ending and leases nothing more"

#define HAPPENED_TIME_MAX 32

/* When it was, the last time, by the clock of the daemon's log: "2026-11-22 12:40:34.123"; "-" for a sum. */
void happened_time(const struct event_row *row, char ret_text[static HAPPENED_TIME_MAX]);

/* Its fields, and "time" in UTC as RFC 3339 has it; null for a sum. */
struct json_t;
struct json_t *happened_to_json(const struct event_row *row);
