/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"

#define SYSTEM_SOCKET "/run/gpumemd/gpumemd.sock"
#define USER_SOCKET   "/gpumemd/gpumemd.sock" /* below XDG_RUNTIME_DIR */

static int put(const char *folder, const char *path, struct sockaddr_un *ret_address)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int n;

        /* An empty path would be an abstract name, which file permissions do not guard. */
        if (!*path)
                return -EINVAL;
        n = snprintf(address.sun_path, sizeof(address.sun_path), "%s%s", folder, path);

        if (n < 0 || (size_t)n >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        *ret_address = address;
        return 0;
}

static const char *environment(const char *name)
{
        const char *value = secure_getenv(name);

        return value && *value ? value : NULL;
}

static int user_address(struct sockaddr_un *ret_address)
{
        const char *folder = environment("XDG_RUNTIME_DIR");

        return folder ? put(folder, USER_SOCKET, ret_address) : -ENOENT;
}

int address_to_listen(const char *named, struct sockaddr_un *ret_address)
{
        const char *path = named ? named : environment("GPUMEM_SOCKET");

        if (path)
                return put("", path, ret_address);
        if (geteuid() == 0)
                return put("", SYSTEM_SOCKET, ret_address);
        return user_address(ret_address);
}

int address_to_connect(const char *named, struct sockaddr_un *ret_address)
{
        const char *path = named ? named : environment("GPUMEM_SOCKET");

        if (path)
                return put("", path, ret_address);
        if (access(SYSTEM_SOCKET, F_OK) != 0 && user_address(ret_address) == 0 &&
            access(ret_address->sun_path, F_OK) == 0)
                return 0;
        return put("", SYSTEM_SOCKET, ret_address);
}

int address_of_admin(const struct sockaddr_un *client, struct sockaddr_un *ret_admin)
{
        return put(client->sun_path, ADDRESS_ADMIN_SUFFIX, ret_admin);
}
