/* SPDX-License-Identifier: Apache-2.0 */
/* Many connections of one process, each with some requests under way. One thread. */
#pragma once

#include "proto/messages.h"
#include "tests/attack/gang.h"

#define ASKERS_MAX 256

struct asker {
        int fd;
        unsigned index;
        unsigned n_owed; /* requests that the socket had no room for */
        uint32_t serial; /* of the last request */
        uint64_t note;   /* of the work */
};

struct askers {
        struct gang_member *member;
        unsigned n;
        struct asker each[ASKERS_MAX];
};

/* Connects so many with HELLO. Each that is not let in counts as refused or failed, and has fd -1. */
void askers_connect(struct askers *askers, struct gang_member *member, unsigned n);

/* Ends such a connection, and begins another. */
void asker_connect_again(struct askers *askers, struct asker *asker);

/* Sends a frame; false: the socket is full, or the connection has ended. */
bool asker_send(struct asker *asker, struct frame *frame, enum message_kind kind);

/* Returns a lease whose block is not mapped; as asker_send. 0 is no lease. */
bool asker_give_back(struct asker *asker, uint64_t lease);

/* Asks and waits; failures count. */
bool asker_call(struct askers *askers, struct asker *asker, struct frame *request,
                enum message_kind kind, struct frame *ret_reply);

/* How each connection asks, by asker_send; and what is done with an answer. An error has been counted already. */
struct askers_way {
        bool (*ask)(struct askers *askers, struct asker *asker);
        void (*take)(struct askers *askers, struct asker *asker, const struct frame *reply);
};

/* A `take`: gives back what was leased. */
void askers_give_back(struct askers *askers, struct asker *asker, const struct frame *reply);

/* Keeps `window` requests under way on each connection; never returns. */
void askers_go_on(struct askers *askers, unsigned window, const struct askers_way *way);
