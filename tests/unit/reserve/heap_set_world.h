/* SPDX-License-Identifier: Apache-2.0 */
/* A set of three heaps with an idle list, and the words of their blocks. The test plays the daemon. One
 * thread. */
#pragma once

#include "client/reserve/heap_set.h"
#include "proto/board.h"
#include "tests/unit/heap/heap_world.h"

#define BLOCK (2 * MIB)

extern struct heap_world world;
extern struct heap_set set;
extern struct set_heap heaps[3];
extern _Atomic uint64_t words[WORLD_BLOCKS_MAX]; /* in the order of world.blocks */

void begin(enum heap_runs runs);
void begin_joined(void);
void end(void);
void check_all(void);

/* With a busy lease. */
struct heap_block *add(unsigned heap, uint64_t offset, uint64_t n_bytes);

/* An allocation of exactly a hole's size is where the hole was. */
void fill(unsigned heap, uint64_t n_bytes, uint64_t offset);
void give(unsigned heap, uint64_t offset);

/* The work before all that was freed is over. */
void pass(unsigned heap);

/* As the client looks, again and again. Whether anything was put on the idle list. */
bool look(void);

/* All that is idle goes to the idle list. */
void put_idle(void);

/* The first heap gets blocks off the idle list. */
bool reuse(uint64_t n_bytes);

/* The daemon takes a block that is idle. */
void revoke(struct heap_block *block);

/* Where a block is, with the word that it has there. */
void expect_in(unsigned heap, const struct heap_block *block);
void expect_idle(const struct heap_block *block);
void expect_gone(const struct heap_block *block);
