/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/listen.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static int parse_port(const char *text, in_port_t *ret_port)
{
        unsigned value = 0;

        if (!*text || strlen(text) > 5 || text[strspn(text, "0123456789")])
                return -EINVAL;
        for (; *text; text++)
                value = value * 10 + (unsigned)(*text - '0');
        if (value > UINT16_MAX)
                return -EINVAL;
        *ret_port = htons((uint16_t)value);
        return 0;
}

static int parse_ipv6(const char *host, in_port_t port, struct listen_address *ret_address)
{
        struct listen_address address = {.ipv6 = {.sin6_family = AF_INET6, .sin6_port = port},
                                         .n_bytes = sizeof(address.ipv6)};

        if (inet_pton(AF_INET6, host, &address.ipv6.sin6_addr) != 1)
                return -EINVAL;
        *ret_address = address;
        return 0;
}

static int parse_ipv4(const char *host, in_port_t port, struct listen_address *ret_address)
{
        struct listen_address address = {.ipv4 = {.sin_family = AF_INET, .sin_port = port},
                                         .n_bytes = sizeof(address.ipv4)};

        if (inet_pton(AF_INET, host, &address.ipv4.sin_addr) != 1)
                return -EINVAL;
        *ret_address = address;
        return 0;
}

int listen_parse(const char *text, struct listen_address *ret_address)
{
        const char *colon = strrchr(text, ':');
        char host[LISTEN_TEXT_MAX];
        size_t n = colon ? (size_t)(colon - text) : 0;
        in_port_t port;

        if (!n || n >= sizeof(host) || parse_port(colon + 1, &port))
                return -EINVAL;
        memcpy(host, text, n);
        host[n] = '\0';
        if (host[0] != '[')
                return parse_ipv4(host, port, ret_address);
        if (host[n - 1] != ']')
                return -EINVAL;
        host[n - 1] = '\0';
        return parse_ipv6(host + 1, port, ret_address);
}

const char *listen_format(const struct listen_address *address, char text[static LISTEN_TEXT_MAX])
{
        char host[INET6_ADDRSTRLEN];

        if (address->any.sa_family == AF_INET6) {
                (void)inet_ntop(AF_INET6, &address->ipv6.sin6_addr, host, sizeof(host));
                (void)snprintf(text, LISTEN_TEXT_MAX, "[%s]:%u", host,
                               ntohs(address->ipv6.sin6_port));
        } else {
                (void)inet_ntop(AF_INET, &address->ipv4.sin_addr, host, sizeof(host));
                (void)snprintf(text, LISTEN_TEXT_MAX, "%s:%u", host, ntohs(address->ipv4.sin_port));
        }
        return text;
}
