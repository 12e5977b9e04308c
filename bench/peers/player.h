/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of rival.h, for those in C: who serves memory, and the orders that are answered with it. */
#pragma once

#include "bench/peers/rival.h"
#include "driver/cuda.h"

#define PLAYER_STREAMS 16

struct player;

/* Who serves it. Streams are the player's, by number. */
struct allocator {
        unsigned n_steps;        /* in a batch: what takes long is asked for less often */
        unsigned n_thread_steps; /* the same, of a thread among several */
        int (*open)(struct player *player);
        void (*close)(struct player *player); /* NULL: nothing is to be done */
        int (*alloc)(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer);
        int (*free)(struct player *player, unsigned stream, void *pointer);
        const char *(*explain)(int r);
};

/* Any thread that has called player_enter may use the first device's context and its streams. */
struct player {
        const struct allocator *allocator;
        const char *socket_path; /* NULL: as gpumem_options has it */
        struct cuda cuda;
        CUdevice device;
        CUcontext context;
        CUstream streams[PLAYER_STREAMS];
        void *self;                /* the allocator's */
        char reason[ROW_NOTE_MAX]; /* that an order has for having failed; "": the allocator's */
};

struct order {
        const char *word;
        int (*run)(struct player *player, const char *argument, double *ret_number);
};

/* Each ends with a NULL word. */
extern const struct order orders_common[], orders_gpumemd[];

extern const struct allocator allocator_gpumemd, allocator_driver, allocator_async;

int player_enter(const struct player *player);

/* Why the order failed, which `r` does not say. Returns r. */
int player_explain(struct player *player, int r, const char *reason);

/* bench/peers/threads.c's: pairs a microsecond of so many threads together. */
int order_threads(struct player *player, const char *argument, double *ret_rate);

/* bench/peers/play.c's. */
int order_play(struct player *player, const char *argument, double *ret_number);
int order_go(struct player *player, const char *argument, double *ret_reserved);
