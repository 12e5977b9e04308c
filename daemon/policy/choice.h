/* Which of the blocks that there are serves a request: a cached one, or one whose lease is idle. */
#pragma once

struct block;
struct looks;
struct request;

/* A block in CACHED that the request is to be granted, or NULL. In this order: one that its client
 * maps already, if it said that this will do, and none else if it said so; one that is large enough, the smallest; a smaller one
 * that it takes, the largest. Each cached before it was looked for, or else idle in another client's
 * hands until now. */
struct block *choice_find(const struct request *request, struct looks *looks);
