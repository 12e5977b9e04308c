/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals, for the thread that asks why and for the daemon: it learns of memory that the library refused for a reason
 * of its own, so that gpumemctl why-oom shows it. */
#pragma once

#include "client/api/client.h"

/* One client tells the daemon no more often. */
#define REFUSAL_TELL_NS UINT64_C(100000000)

/* The call ends with the error `code`: keeps it for the thread, as last_error_keep, and tells the daemon, unless that
 * has given the reason itself, or is too old. No answer is waited for. */
void refusal_keep(struct gpumem_client *client, int code, const struct gpumem_request *request);
