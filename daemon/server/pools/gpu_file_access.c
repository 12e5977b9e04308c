/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/gpu_file_access.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/text.h"
#include "gpumem.h"

#define DRIVER_FILE "/dev/nvidiactl"

/* Linux 4.13; missing in the headers of some systems with such a kernel. */
#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

void gpu_file_access_find(struct server_pool *pool)
{
        char text[TEXT_BYTES];
        glob_t found;
        uint32_t number;

        if (glob("/proc/driver/nvidia/gpus/*/information", GLOB_NOSORT, NULL, &found))
                return;
        for (size_t i = 0; i < found.gl_pathc; i++) {
                if (text_read(found.gl_pathv[i], text) == 0 &&
                    device_file_number(text, pool->row.uuid, &number) == 0)
                        (void)snprintf(pool->device.file, sizeof(pool->device.file),
                                       "/dev/nvidia%" PRIu32, number);
        }
        globfree(&found);
}

static struct device_file look_at(const char *path)
{
        struct stat status;

        if (stat(path, &status) || getxattr(path, "system.posix_acl_access", NULL, 0) > 0)
                return (struct device_file){.is_known = false};
        return (struct device_file){.is_known = true,
                                    .uid = status.st_uid,
                                    .gid = status.st_gid,
                                    .mode = status.st_mode};
}

/* The peer's group and supplementary groups; the caller frees them. NULL: the kernel does not tell them. */
static gid_t *read_groups(int socket, size_t *ret_n)
{
        struct ucred credentials;
        socklen_t n_credentials = sizeof(credentials), n_bytes = 0;
        gid_t *groups;

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &n_credentials))
                return NULL;
        if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &n_bytes) && errno != ERANGE)
                return NULL;
        groups = malloc(n_bytes + sizeof(*groups));
        if (!groups ||
            (n_bytes && getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups + 1, &n_bytes))) {
                free(groups);
                return NULL;
        }
        groups[0] = credentials.gid;
        *ret_n = 1 + n_bytes / sizeof(*groups);
        return groups;
}

static bool may_open(const struct session *session, const struct device_file *file)
{
        CLEANUP(freep)
        gid_t *groups = NULL;
        size_t n = 0;

        if (device_file_is_open(file))
                return true;
        groups = read_groups(session->transport.fd, &n);
        return !groups || device_file_opens(file, session->peer.uid, groups, n);
}

/* Checks the file at most once a second, since some clients ask for blocks often. */
static const struct device_file *file_now(struct server *server, struct watched_file *watched,
                                          const char *path)
{
        uint64_t now_ns = server_now_ns(server);

        if (!watched->was_seen || now_ns - watched->seen_ns >= 1000 * NS_PER_MS) {
                watched->file = look_at(path);
                watched->seen_ns = now_ns;
                watched->was_seen = true;
        }
        return &watched->file;
}

static bool refuse(struct session *session, uint32_t serial, const char *path,
                   const struct device_file *file)
{
        char text[120];

        (void)snprintf(text, sizeof(text),
                       "uid %" PRIu32 " may not use the GPU: %s has mode %04o, uid %" PRIu32
                       ", gid %" PRIu32,
                       (uint32_t)session->peer.uid, path, (unsigned)(file->mode & 07777), file->uid,
                       file->gid);
        session_send_error(session, serial, GPUMEM_E_DENIED, text);
        return true;
}

bool gpu_file_access_refuse(struct session *session, uint32_t serial, uint32_t id)
{
        struct server *server = session->server;
        struct server_pool *pool = id < server->n_pools ? &server->pools[id] : NULL;
        const struct device_file *file;

        if (!pool || (pool->row.kind == GPUMEM_PINNED && !(pool->row.properties & PROTO_POOL_VMM)))
                return false;
        file = file_now(server, &server->driver_file, DRIVER_FILE);
        if (!may_open(session, file))
                return refuse(session, serial, DRIVER_FILE, file);
        if (!*pool->device.file)
                return false;
        file = file_now(server, &pool->device.watched_file, pool->device.file);
        return !may_open(session, file) && refuse(session, serial, pool->device.file, file);
}
