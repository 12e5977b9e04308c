/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that lies: it follows the protocol up to one answer, which the test makes wrong. It runs in a
 * forked process, made before this one has used the driver. Failures end the test. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum lie {
        LIE_NONE,
        /* in WELCOME */
        LIE_BOARD_IS_PIPE,
        LIE_BOARD_IS_SOCKET,
        LIE_BOARD_IS_FOLDER,
        LIE_BOARD_IS_SHORT,
        LIE_BOARD_IS_UNSEALED,
        LIE_BOARD_IS_CLAIMED_SMALL,
        LIE_ROWS_ARE_PIPE,
        LIE_ROWS_ARE_SHORT,
        LIE_ROWS_ARE_UNSEALED,
        LIE_ROWS_ARE_NARROW,
        LIE_ROWS_HAVE_OTHER_IDS,
        LIE_WELCOME_WITH_ONE_FD,
        LIE_WELCOME_WITH_THREE_FDS,
        LIE_WELCOME_WITH_MANY_FDS,
        LIE_WELCOME_SAYS_ONE_FD,
        LIE_WELCOME_IS_CUT,
        LIE_WELCOME_IS_ANOTHER_KIND,
        LIE_WELCOME_OF_ANOTHER_VERSION,
        LIE_WELCOME_IS_NOISE,
        LIE_WELCOME_IS_EMPTY,
        LIE_WELCOME_IS_AN_END,
        /* before it: the connection is turned away with TOO_MANY */
        LIE_TURNED_AWAY_AT_ONCE,
        LIE_TURNED_AWAY_UNREAD, /* once the HELLO has come */
        LIE_TURNED_AWAY_READ,
        /* in LEASED, and in ATTACHED */
        LIE_BLOCK_IS_PIPE,
        LIE_BLOCK_IS_SOCKET,
        LIE_BLOCK_IS_FOLDER,
        LIE_BLOCK_IS_SMALLER,
        LIE_BLOCK_IS_UNSEALED,
        LIE_LEASE_IS_SMALLER,
        LIE_LEASE_IS_LARGER,
        LIE_LEASE_IS_ODD,
        LIE_LEASE_HAS_NO_SLOT,
        LIE_LEASE_IS_KNOWN,
        LIE_LEASE_IS_ANOTHER_KIND,
        LIE_LEASED_WITHOUT_FD,
        LIE_LEASED_WITH_TWO_FDS,
        LIE_LEASED_WITH_MANY_FDS,
        LIE_LEASED_IS_CUT,
        LIE_LEASED_IS_AN_END,
        /* beside it: these do no harm */
        LIE_ANSWER_TO_NOBODY,
        LIE_ANSWER_TWICE,
        LIE_ERROR_TO_NOBODY,
        LIE_NOTICE_OF_NOTHING,
        LIE_NOTICES_FOR_EVER,
        /* instead of LEASED */
        LIE_NOTICES_AND_NO_ANSWER,
        LIE_REFUSES_ODDLY,    /* facts of a daemon that is not there yet, or is hostile */
        LIE_REFUSES_IN_WORDS, /* no lie: an older daemon does not know facts */
        /* in WELCOME, and no lie: an older daemon knows no features */
        LIE_KNOWS_NO_FEATURES,
        /* in the answer to EVENTS: there is always more */
        LIE_EVENTS_FOR_EVER,
        /* in the answers to CLIENTS, BLOCKS, TENANTS and EVENTS */
        LIE_LIST_HAS_ODD_BYTES,
        LIE_LIST_IS_TAKEN_BACK_TWICE, /* and is there when it is asked for again */
        LIE_LIST_IS_TAKEN_BACK,
        LIE_LIST_IS_PIPE,
        LIE_LIST_IS_SHORT,
        LIE_LIST_IS_UNSEALED,
        LIE_LIST_IS_NARROW,
        LIE_LIST_WITH_ONE_FD,
        LIE_LIST_IS_CUT,
        LIE_LIST_IS_ANOTHER_KIND,
        LIE_N,
};

/* What is said then. */
#define LIAR_TURNS_AWAY "no room at the liar's"
#define LIAR_REFUSES    "the liar's device"

/* Of what there is to attach: the token's first byte says from which pool. */
#define LIAR_SHARED_BYTES (UINT64_C(4) << 20)

struct liar {
        char place[64];
        pid_t pid;
};

/* It listens where GPUMEM_SOCKET says from now on; a device of 1 GiB is emulated. */
void liar_start(struct liar *liar, enum lie lie);
void liar_end(struct liar *liar);
