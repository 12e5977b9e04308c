/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server/pools/gpu_file_access.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/err.h"
#include "base/text.h"
#include "gpumem.h"

#define DRIVER_FILE "/dev/nvidiactl"

/* Supplementary groups that are looked at. The kernel allows 65,536; to copy them takes more than a millisecond. */
#define GROUPS_MAX 4096

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

/* The peer's group and its supplementary groups. -ERANGE: it has more; another fault: the kernel does not tell them. */
static int read_groups(int socket, gid_t ret_groups[static 1 + GROUPS_MAX], size_t *ret_n)
{
        struct ucred credentials;
        socklen_t n_credentials = sizeof(credentials), n_bytes = GROUPS_MAX * sizeof(gid_t);

        if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &n_credentials) ||
            getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, ret_groups + 1, &n_bytes))
                return err_errno();
        ret_groups[0] = credentials.gid;
        *ret_n = 1 + n_bytes / sizeof(gid_t);
        return 0;
}

static enum gpu_file_verdict judge(const struct session *session, const struct device_file *file)
{
        gid_t groups[1 + GROUPS_MAX];
        size_t n = 0;
        int r;

        r = read_groups(session->transport.peer_fd, groups, &n);
        if (r == -ERANGE)
                return GPU_FILE_TOO_MANY_GROUPS;
        return r || device_file_opens(file, session->peer.uid, groups, n) ? GPU_FILE_OPENS
                                                                          : GPU_FILE_CLOSED;
}

static bool is_same(const struct device_file *file, const struct device_file *other)
{
        return file->is_known == other->is_known && file->uid == other->uid &&
               file->gid == other->gid && file->mode == other->mode;
}

/* A peer's groups stay what they were when it connected: they are read again only for a file with another owner, group
 * or mode. */
static enum gpu_file_verdict look_up(const struct session *session, struct gpu_file_access *access,
                                     const struct device_file *file)
{
        if (access->verdict == GPU_FILE_UNKNOWN || !is_same(&access->file, file))
                *access = (struct gpu_file_access){judge(session, file), *file};
        return access->verdict;
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
                   const struct gpu_file_access *access)
{
        const struct device_file *file = &access->file;
        unsigned uid = session->peer.uid;
        char text[120];

        if (access->verdict == GPU_FILE_TOO_MANY_GROUPS)
                (void)snprintf(text, sizeof(text),
                               "uid %u may not use the GPU: %s is for gid %" PRIu32
                               ", and the process has more than %d groups",
                               uid, path, file->gid, GROUPS_MAX);
        else
                (void)snprintf(text, sizeof(text),
                               "uid %u may not use the GPU: %s has mode %04o, uid %" PRIu32
                               ", gid %" PRIu32,
                               uid, path, (unsigned)(file->mode & 07777), file->uid, file->gid);
        session_send_error(session, serial, GPUMEM_E_DENIED, text);
        return true;
}

static bool may_open(const struct session *session, struct gpu_file_access *access,
                     struct watched_file *watched, const char *path)
{
        const struct device_file *file = file_now(session->server, watched, path);

        return device_file_opens_in_any_group(file, session->peer.uid) ||
               look_up(session, access, file) == GPU_FILE_OPENS;
}

bool gpu_file_access_refuse(struct session *session, uint32_t serial, uint32_t id)
{
        struct server *server = session->server;
        struct server_pool *pool = id < server->n_pools ? &server->pools[id] : NULL;
        struct gpu_file_access *access = &session->device_file;

        if (!pool || (pool->row.kind == GPUMEM_PINNED && !(pool->row.properties & PROTO_POOL_VMM)))
                return false;
        if (!may_open(session, &session->driver_file, &server->driver_file, DRIVER_FILE))
                return refuse(session, serial, DRIVER_FILE, &session->driver_file);
        return *pool->device.file &&
               !may_open(session, access, &pool->device.watched_file, pool->device.file) &&
               refuse(session, serial, pool->device.file, access);
}
