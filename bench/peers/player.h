/* The child's side of rival.h, for those in C: who serves memory, and the orders that are answered with
 * it. */
#pragma once

#include "bench/peers/rival.h"
#include "bench/peers/stage.h"

struct bare;
struct player;

/* Who serves it. Streams are the stage's, by number. */
struct allocator {
        const char *name;
        unsigned n_steps;        /* in a batch: what takes long is asked for less often */
        unsigned n_thread_steps; /* the same, of a thread among several */
        /* The stage is there unless it is not wanted. -ENOTSUP: the driver has no such memory. */
        int (*open)(struct player *player);
        void (*close)(struct player *player); /* NULL: nothing is to be done */
        int (*alloc)(struct player *player, unsigned stream, uint64_t n_bytes, void **ret_pointer);
        int (*free)(struct player *player, unsigned stream, void *pointer);
        /* Once, as alloc, for at most so long. */
        int (*wait)(struct player *player, uint64_t n_bytes, double seconds, void **ret_pointer);
        int (*drop)(struct player *player); /* what is cached goes back to the driver */
        int (*pin)(struct player *player, uint64_t n_bytes, void **ret_pointer); /* NULL: none */
        int (*unpin)(struct player *player, void *pointer);
        const char *(*explain)(int r);
};

struct player {
        const struct allocator *allocator;
        const char *socket_path; /* NULL: as gpumem_options has it */
        uint64_t started_ns;
        double connect_ns; /* that it took the allocator's open */
        struct stage stage;
        void *self;        /* the allocator's */
        struct bare *bare; /* reserved.c's; NULL: not linked yet */
        CUmemoryPool pool;
        void *held;
        char reason[ROW_NOTE_MAX]; /* that an order has for having failed; "": the allocator's */
};

struct order {
        const char *word;
        int (*run)(struct player *player, const char *argument,
                   double ret_numbers[static RIVAL_NUMBERS_MAX]);
};

/* Each ends with a NULL word. */
extern const struct order orders_common[], orders_gpumemd[], orders_client[];

extern const struct allocator allocator_gpumemd, allocator_driver, allocator_async;

/* Why the order failed, which `r` does not say. Returns r. */
int player_explain(struct player *player, int r, const char *reason);
