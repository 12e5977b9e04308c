/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of most live tests: headers and a few short names. Failures end the test. */
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/size.h"
#include "gpumem.h"
#include "tests/live/support/calls.h"
#include "tests/live/support/daemon.h"
#include "tests/live/support/links.h"
#include "tests/suite.h"

/* Runs `act` in a process of that user, and fails where it does. Only root can become another user. */
void as_user(uid_t uid, void (*act)(const void *argument), const void *argument);

/* The client's last refusal in this thread. */
struct gpumem_refusal refusal_of(struct gpumem_client *client);

/* Collects the daemon's stderr (log_begin); returns what it has logged so far; waits until it has logged
 * this text. */
void log_begin(void);
const char *log_text(void);
void log_await(const char *part);

/* The text must contain the part. */
void must_contain(const char *text, const char *part);
