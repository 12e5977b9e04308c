/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of rival.h, for rivals in C: the allocator, and the orders that it answers. */
#pragma once

#include <stdbool.h>

#include "base/size.h"
#include "bench/peers/rival.h"
#include "driver/cuda.h"

#define PLAYER_STREAMS 16

struct player;

/* An allocator under test. The player numbers its streams. */
struct allocator {
        bool has_no_device;      /* it measures no memory */
        unsigned n_steps;        /* in a batch: slow allocators do fewer steps */
        unsigned n_thread_steps; /* the same for one of several threads */
        int (*open)(struct player *player);
        void (*close)(struct player *player); /* NULL: nothing to do */
        int (*alloc)(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer);
        int (*free)(struct player *player, unsigned stream, void *pointer);
        const char *(*explain)(int r);
};

/* A thread that has called player_enter may use the first device's context and its streams. */
struct player {
        const struct allocator *allocator;
        const char *socket_path; /* NULL: the default of gpumem_options */
        struct cuda cuda;
        CUdevice device;
        CUcontext context;
        CUstream streams[PLAYER_STREAMS];
        void *self;                /* the allocator's state */
        char reason[ROW_NOTE_MAX]; /* why an order failed; "": the allocator explains its result */
};

struct order {
        const char *word;
        int (*run)(struct player *player, const char *argument, double *ret_number);
};

/* Each list ends with a NULL word. */
extern const struct order orders_common[], orders_gpumemd[], orders_echo[];

extern const struct allocator allocator_gpumemd, allocator_handle, allocator_driver,
        allocator_async, allocator_echo;

/* What the order "back" gives back, as in cupy_rival.py. */
#define ORDER_BACK_N     64
#define ORDER_BACK_BYTES (64 * MIB)
int order_back_alloc(struct player *player, void *ret_pointers[static ORDER_BACK_N]);

int player_enter(const struct player *player);

/* Sets why the order failed, if `r` does not tell. Returns r. */
int player_explain(struct player *player, int r, const char *reason);

/* In bench/peers/threads.c: pairs in a microsecond, over that many threads. */
int order_threads(struct player *player, const char *argument, double *ret_rate);

/* In bench/peers/play.c. */
int order_play(struct player *player, const char *argument, double *ret_number);
int order_go(struct player *player, const char *argument, double *ret_reserved);
