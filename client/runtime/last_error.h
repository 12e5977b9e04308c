/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last error, in two steps. The function that fails sets the reason. The public call that ends
 * with this error keeps it, until the thread asks for it (gpumem_last_refusal).
 *
 * Each thread has its own errors, so nothing is locked. Clients are identified by a number that is never reused,
 * since their addresses are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gpumem.h"
#include "proto/messages.h"

/* Sets the reason of an error, such as the daemon's answer. It is kept only if the whole call ends with this error. */
void last_error_set(int code, const char *text);

/* The same for what the kernel said: `error` is its errno. */
void last_error_set_errno(int code, int error, const char *text);

/* The errno of the reason that was set last, if it was set for this code; 0: it has none. */
int last_error_errno(int code);

/* The same from a reply of the daemon, if it is an ERROR, a REFUSED or a REFUSED_FACTS. */
void last_error_set_frame(int code, const struct frame *frame);

/* A call begins: reasons that earlier calls have set are dropped. */
void last_error_clear(void);

/* The calls that follow are about the pool with this number of the daemon's. */
#define LAST_ERROR_NO_POOL UINT32_MAX
void last_error_set_pool(uint32_t pool);
uint32_t last_error_pool(void);

/* Is the reason of this code, if one is set, the daemon's? */
bool last_error_is_daemons(int code);

/* An environment variable has a value that is not a valid `allowed`. */
void last_error_set_bad_setting(int code, const char *variable, const char *value,
                                const char *allowed);

/* The reason that was set last, if it was set for this code; else the text of the code. Valid until the thread's next
 * call of this file. */
const char *last_error_reason(int code);

/* Does the code mean that memory was refused, rather than that the call was wrong? Only a refusal raises an event;
 * the text of either is kept. */
bool last_error_is_refusal(int code);

/* The call ends with `code`. The text is the daemon's, if it sent one, or that of the code. A thread keeps the last error
 * of each of four clients; that of a fifth takes the place of the one that is the longest ago. */
void last_error_keep(uint64_t client, int code, const struct gpumem_request *request);

/* The same for gpumem_share, gpumem_attach and gpumem_export_dmabuf, whose callers do not choose kind, place and size. */
void last_error_keep_of_attach(uint64_t client, int code);

/* The same for gpumem_connect, under LAST_ERROR_NO_CLIENT since there is no client. It is kept on its own: neither it nor
 * the refusal of a client replaces the other. */
#define LAST_ERROR_NO_CLIENT UINT64_C(0)
void last_error_keep_of_connect(int code);

/* The text of the error that was kept last, valid for as long. */
const char *last_error_text(void);

/* GPUMEM_E_NO_REFUSAL: none was kept, or those of four other clients came after it. The caller sets ret_refusal's struct_size. */
int last_error_get(uint64_t client, struct gpumem_refusal *ret_refusal);
