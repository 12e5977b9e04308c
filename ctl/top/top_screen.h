/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of gpumemctl top, and the keys that change what it shows. One thread. */
#pragma once

#include <stdbool.h>

#include "ctl/query/node_state.h"
#include "ctl/top/top_rows.h"

/* What is shown, as keys have set it. */
struct top {
        enum top_sort sort;
        bool is_reverse;
        uint32_t pool;  /* of rows; PROTO_ALL_POOLS */
        unsigned first; /* row on the screen */
        bool is_paused;
        bool shows_help;
        const char *trouble; /* why nothing is known; NULL: something is */
        bool is_ending;      /* the daemon */
        struct node_state node;
};

/* Takes the terminal over. -ENOTTY: there is none; -EINVAL: it is not known; -EOPNOTSUPP: it cannot move its cursor. */
int top_screen_open(void);

/* Gives it back; may be called if it was not taken. */
void top_screen_close(void);

void top_screen_draw(struct top *top);

/* What a person wants. */
enum top_wish { TOP_NOTHING, TOP_REDRAW, TOP_ASK, TOP_QUIT };

/* Takes a key that waits, if one does, and changes what is shown. */
enum top_wish top_screen_take_key(struct top *top);
