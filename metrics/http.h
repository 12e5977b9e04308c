/* SPDX-License-Identifier: Apache-2.0 */
/* gpumemd-exporter's HTTP: /metrics, and nothing else, on libmicrohttpd. One thread.
 *
 * So many connections at a time; others wait in the kernel's queue. Each is for one request; visit.h says
 * how long that may take. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "metrics/asker.h"

#define HTTP_CONNECTIONS_MAX 512

/* An answer of the daemon's is good for so long. */
#define HTTP_FRESH_MS 1000

struct http;

/* `take_socket` listens. `wait_ms`: so long a request waits for the daemon. */
int http_new(int take_socket, struct asker *asker, uint32_t wait_ms, struct http **ret_http);

/* To be polled for reading. */
int http_fd(const struct http *http);

/* Does what there is to be done, and takes the asker's answer if there is one. Returns the time until
 * it is to be called again at the latest, for poll: -1 is no limit. */
int http_run(struct http *http);

/* NULL is legal; returns NULL. */
struct http *http_free(struct http *http);
