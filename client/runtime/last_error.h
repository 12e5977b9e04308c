/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error, in two steps. Where a call fails, its reason is set. Where the call ends
 * with that error it is kept, until the thread asks for it (gpumem_last_refusal).
 *
 * Each thread has its own, so nothing is locked. Clients are told apart by a number that is never used
 * twice, since addresses are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpumem.h"
#include "proto/proto.h"

/* The reason of an error, such as the daemon's answer. It is kept only if the call as a whole ends with it. */
void last_error_set(int code, const char *text);

/* The same of a frame that refuses, if it does: an ERROR or a REFUSED. */
void last_error_set_frame(int code, const struct frame *frame);

/* A call begins: what was set before is of earlier ones. */
void last_error_clear(void);

/* A variable of the environment has a value that is no `allowed`. */
void last_error_set_bad_setting(int code, const char *variable, const char *value,
                                const char *allowed);

/* What was set last, if it was for this code; else the text of the code. */
const char *last_error_reason(int code);

/* Is this the end of an allocation that could not be had, rather than of a call that was wrong? Only of the former
 * there is an event; the text of either is kept. */
bool last_error_is_refusal(int code);

/* The call ends with `code`: the text is the daemon's if it said so, or that of the code. */
void last_error_keep(uint64_t client, int code, const struct gpumem_request *request);

/* The same of a gpumem_share or gpumem_attach: kind, place and size are not the caller's to ask for. */
void last_error_keep_of_attach(uint64_t client, int code);

/* The same of a gpumem_connect: of no client, whose number is LAST_ERROR_NO_CLIENT. It is also kept for itself. */
#define LAST_ERROR_NO_CLIENT UINT64_C(0)
void last_error_keep_of_connect(int code);

/* The text of the one that was kept last. */
const char *last_error_text(void);

/* GPUMEM_E_NO_REFUSAL. ret_refusal's struct_size is the caller's concern. */
int last_error_get(uint64_t client, struct gpumem_refusal *ret_refusal);

/* The last one of a gpumem_connect, whatever came after it. */
int last_error_get_of_connect(struct gpumem_refusal *ret_refusal);
