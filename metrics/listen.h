/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and formats the exporter's listening address. Pure. */
#pragma once

#include <netinet/in.h>

/* IANA has not assigned this port. */
#define LISTEN_DEFAULT "127.0.0.1:14900"

#define LISTEN_TEXT_MAX 64

struct listen_address {
        union {
                struct sockaddr any;
                struct sockaddr_in ipv4;
                struct sockaddr_in6 ipv6;
        };
        socklen_t n_bytes;
};

/* Parses numeric addresses such as "127.0.0.1:14900" and "[::1]:14900"; port 0 lets the kernel choose.
 * -EINVAL. */
int listen_parse(const char *text, struct listen_address *ret_address);

/* Formats an address in the same form. */
const char *listen_format(const struct listen_address *address, char text[static LISTEN_TEXT_MAX]);
