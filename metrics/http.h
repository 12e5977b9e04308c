/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server of gpumemd-exporter: serves /metrics only, with libmicrohttpd. One thread.
 *
 * The number of connections is limited; others wait in the kernel's queue. A connection is for one request;
 * visit.h has the time limits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "metrics/asker.h"

#define HTTP_CONNECTIONS_MAX 512

/* How long requests share an answer of the daemon. */
#define HTTP_FRESH_MS 1000

struct http;

/* `take_socket` listens. `wait_ms` limits how long a request waits for the daemon. */
int http_new(int take_socket, struct asker *asker, uint32_t wait_ms, struct http **ret_http);

/* To be polled for reading. */
int http_fd(const struct http *http);

/* Handles all events, and takes the asker's answer if there is one. Returns the timeout for poll until the
 * next call; -1: none. */
int http_run(struct http *http);

/* NULL is legal; returns NULL. */
struct http *http_free(struct http *http);
