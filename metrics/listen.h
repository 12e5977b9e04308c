/* SPDX-License-Identifier: Apache-2.0 */
/* Where gpumemd-exporter listens, in words. Pure. */
#pragma once

#include <netinet/in.h>

/* A port that IANA has assigned to nobody. */
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

/* "127.0.0.1:14900", "[::1]:14900": addresses in figures; port 0 is any that is free. -EINVAL. */
int listen_parse(const char *text, struct listen_address *ret_address);

/* The same text of an address. */
const char *listen_format(const struct listen_address *address, char text[static LISTEN_TEXT_MAX]);
