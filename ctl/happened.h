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

#define HAPPENED_BIT(what) (UINT32_C(1) << LISTED_EVENT_##what)

/* `kinds` as in EVENTS. Untouched but for what is to be let go, unless 0. */
int happened_fetch(struct link *link, uint64_t since, uint32_t kinds,
                   struct happened *ret_happened);

void happened_deinit(struct happened *happened);

/* A row of other tenants, which is a sum. */
bool happened_is_sum(const struct event_row *row);

#define HAPPENED_TIME_MAX 32

/* When it was, the last time, by the clock of the daemon's log: "2026-11-22 12:40:34.123"; "-" for a sum. */
void happened_time(const struct event_row *row, char ret_text[static HAPPENED_TIME_MAX]);

/* Its fields, and "time" in UTC as RFC 3339 has it; null for a sum. */
struct json_t;
struct json_t *happened_to_json(const struct event_row *row);
