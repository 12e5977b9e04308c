/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that no daemon could serve. Each call returns the error, and keeps for the thread what was wrong and what is
 * allowed. */
#pragma once

#include "client/api/client.h"

/* Sizes, places and flags that are never allowed; 0: there are none. */
int wrong_request_check(const struct gpumem_request *request);

/* A kind that there is not: GPUMEM_E_BAD_REQUEST. */
int wrong_request_kind(enum gpumem_kind kind);

/* The stream is of another device than the place: GPUMEM_E_WRONG_STREAM. */
int wrong_request_stream(int ordinal, int32_t place);

/* A place without a pool: GPUMEM_E_NO_POOL. The text names those that have one. */
int wrong_request_place(struct gpumem_client *client, enum gpumem_kind kind, int32_t place);
