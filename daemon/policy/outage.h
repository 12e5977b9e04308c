/* What a pool says that cannot serve: its driver does not answer, or has lost its device. */
#pragma once

struct pool;

/* Of a request there. */
int outage_outcome(const struct pool *pool);
