/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the daemon of memory that the library refused for a reason of its own, so that gpumemctl why-oom shows it. */
#pragma once

#include "client/api/client.h"

/* One client tells the daemon no more often. */
#define REPORT_NS UINT64_C(100000000)

/* The call ends with the error `code`: keeps it for the thread, as last_error_keep, and tells the daemon, unless that
 * has given the reason itself, or is too old. No answer is waited for. */
void report_keep(struct gpumem_client *client, int code, const struct gpumem_request *request);
