/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that allocates and frees the same in each round, as the training of a transformer does: each layer of the way
 * forth keeps what the way back needs, and has scratch memory of other sizes. It pauses before each call, so that a
 * round takes 25 ms and what it does not use meanwhile is idle. Once it has run for a while, no round should need a
 * block that must be leased or moved. */
#pragma once

struct options;
struct rows;
struct target;

/* Adds rows: how many requests of a round lease or move a block, at first and later. */
int loop_measure(struct target *target, const struct options *options, struct rows *rows);
