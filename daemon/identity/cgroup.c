/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/identity/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define ID_DIGITS       64
#define SHORT_ID_DIGITS 12
#define ECS_DIGITS      32

/* Part of a text. */
struct piece {
        const char *bytes;
        size_t n;
};

static struct piece piece_of(const char *text)
{
        return (struct piece){text, strlen(text)};
}

static bool equals(struct piece piece, const char *text)
{
        return piece.n == strlen(text) && memcmp(piece.bytes, text, piece.n) == 0;
}

static bool begins(struct piece piece, const char *text)
{
        return piece.n >= strlen(text) && memcmp(piece.bytes, text, strlen(text)) == 0;
}

static bool ends(struct piece piece, const char *text)
{
        size_t n = strlen(text);

        return piece.n >= n && memcmp(piece.bytes + piece.n - n, text, n) == 0;
}

static bool has(struct piece piece, const char *text)
{
        return piece.n && memmem(piece.bytes, piece.n, text, strlen(text));
}

static struct piece without(struct piece piece, const char *prefix, const char *suffix)
{
        if (begins(piece, prefix)) {
                piece.bytes += strlen(prefix);
                piece.n -= strlen(prefix);
        }
        if (ends(piece, suffix))
                piece.n -= strlen(suffix);
        return piece;
}

static bool are_digits(const char *bytes, size_t n, int (*is_digit)(int character))
{
        for (size_t i = 0; i < n; i++) {
                if (!is_digit((unsigned char)bytes[i]))
                        return false;
        }
        return n > 0;
}

/* Matches "docker-ID.scope", "libpod-ID", "kubepods-pod0.slice:cri-containerd:ID", or an id alone. */
static bool ends_with_id(struct piece name)
{
        struct piece before = {name.bytes, name.n - ID_DIGITS};

        if (name.n < ID_DIGITS || !are_digits(name.bytes + before.n, ID_DIGITS, isxdigit))
                return false;
        return before.n == 0 || ends(before, "-") || ends(before, ":");
}

/* The monitor process of podman, CRI-O or LXC: it runs outside the container. */
static bool is_monitor(struct piece name)
{
        return has(name, "conmon-") || begins(name, "lxc.monitor");
}

/* Matches the names of Amazon ECS: the id of a task, and a number. */
static bool is_of_ecs(struct piece name)
{
        return name.n > ECS_DIGITS + 1 && are_digits(name.bytes, ECS_DIGITS, isxdigit) &&
               name.bytes[ECS_DIGITS] == '-' &&
               are_digits(name.bytes + ECS_DIGITS + 1, name.n - ECS_DIGITS - 1, isdigit);
}

static bool is_machine(struct piece name)
{
        return (begins(name, "machine-") && ends(name, ".scope")) ||
               (begins(name, "systemd-nspawn@") && ends(name, ".service"));
}

/* Matches the default names of runc and crun. The caller of the runtime chooses the part between prefix and
 * ".scope". */
static bool is_of_runtime(struct piece name)
{
        struct piece chosen = without(name, "", ".scope");

        if (chosen.n == name.n || !(begins(chosen, "runc-") || begins(chosen, "crun-")))
                return false;
        return chosen.n > strlen("runc-");
}

static bool is_job(struct piece name, struct piece before)
{
        return has(before, "slurm") && begins(name, "job_") &&
               are_digits(name.bytes + 4, name.n - 4, isdigit);
}

static bool is_pod(struct piece name, struct piece before)
{
        return has(before, "kubepods") && (begins(name, "pod") || has(name, "-pod"));
}

/* Whether `name` is a container's cgroup; `parent` is the name above it, `before` the path above. */
static bool is_container(struct piece name, struct piece parent, struct piece before)
{
        if (is_monitor(name))
                return false;
        return ends_with_id(without(name, "", ".scope")) || is_of_ecs(name) || is_machine(name) ||
               is_of_runtime(name) || is_job(name, before) || is_pod(parent, before) ||
               begins(name, "lxc.payload.") || equals(parent, "lxc.payload") ||
               equals(parent, "lxc") || equals(parent, "buildkit");
}

/* Moves `name` to the next name of the path; an empty `name` at its start moves to the first. */
static bool next_name(struct piece path, struct piece *name)
{
        const char *end = path.bytes + path.n;
        const char *at = name->bytes + name->n, *next;

        while (at < end && *at == '/')
                at++;
        next = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        *name = (struct piece){at, (size_t)((next ? next : end) - at)};
        return name->n > 0;
}

/* The path up to the outermost container; empty if there is none. */
static struct piece cut(struct piece path)
{
        struct piece name = {path.bytes, 0}, parent = name;

        while (next_name(path, &name)) {
                struct piece before = {path.bytes, (size_t)(name.bytes - path.bytes)};

                if (is_container(name, parent, before))
                        return (struct piece){path.bytes, before.n + name.n};
                parent = name;
        }
        return (struct piece){path.bytes, 0};
}

/* A path above the daemon's own cgroup namespace begins with "..". */
static bool is_of_host(struct piece path)
{
        struct piece name = {path.bytes, 0};

        do {
                if (!next_name(path, &name))
                        return true;
        } while (equals(name, ".."));
        return equals(name, "init.scope") || ends(name, ".slice") || ends(name, ".service");
}

struct cgroup_line {
        struct piece controllers;
        struct piece path;
};

/* Reads a line "HIERARCHY:CONTROLLERS:PATH". Further colons belong to the path. */
static int read_line(const char **text, struct cgroup_line *ret_line)
{
        const char *at = *text, *end = strchrnul(at, '\n');
        const char *first = memchr(at, ':', (size_t)(end - at)), *second;

        second = first ? memchr(first + 1, ':', (size_t)(end - first - 1)) : NULL;
        if (!second || !are_digits(at, (size_t)(first - at), isdigit) || second[1] != '/')
                return -EPROTO;
        ret_line->controllers = (struct piece){first + 1, (size_t)(second - first - 1)};
        ret_line->path = (struct piece){second + 1, (size_t)(end - second - 1)};
        *text = *end ? end + 1 : end;
        return 0;
}

/* Cgroup v2, or systemd's own hierarchy of v1: both have a path for every process. */
static bool is_of_units(const struct cgroup_line *line)
{
        return line->controllers.n == 0 || begins(line->controllers, "name=");
}

int cgroup_find_container(const char *cgroups, char ret_path[static CGROUP_PATH_MAX])
{
        struct piece known = {cgroups, 0}, unknown = {cgroups, 0};

        if (!*cgroups)
                return -EPROTO;
        while (*cgroups) {
                struct cgroup_line line;
                struct piece path;
                int r = read_line(&cgroups, &line);

                if (r)
                        return r;
                path = cut(line.path);
                if (path.n && (!known.n || line.controllers.n == 0))
                        known = path;
                if (is_of_units(&line) && !is_of_host(line.path))
                        unknown = line.path;
        }
        if (!known.n)
                known = unknown;
        if (known.n >= CGROUP_PATH_MAX)
                return -ENAMETOOLONG;
        memcpy(ret_path, known.bytes, known.n);
        memset(ret_path + known.n, 0, CGROUP_PATH_MAX - known.n);
        return 0;
}

/* Decodes "\x2d", systemd's form of '-'. A user who makes a cgroup chooses its name, so only printable
 * characters are returned. */
static char next_character(struct piece *name)
{
        char character = *name->bytes;
        size_t n = 1;

        if (begins(*name, "\\x2d")) {
                character = '-';
                n = strlen("\\x2d");
        }
        name->bytes += n;
        name->n -= n;
        return isgraph((unsigned char)character) ? character : '?';
}

void cgroup_container_name(const char *path, char ret_name[static CGROUP_NAME_MAX])
{
        const char *last = strrchr(path, '/');
        struct piece name = piece_of(last ? last + 1 : path), scope;
        size_t n = 0;

        if (is_machine(name))
                name = without(without(name, "machine-", ".scope"), "systemd-nspawn@", ".service");
        scope = without(name, "lxc.payload.", ".scope");
        if (!is_of_runtime(name) || ends_with_id(scope))
                name = scope;
        if (ends_with_id(name))
                name = (struct piece){name.bytes + name.n - ID_DIGITS, SHORT_ID_DIGITS};
        while (name.n && n < CGROUP_NAME_MAX - 1)
                ret_name[n++] = next_character(&name);
        ret_name[n] = '\0';
}

bool cgroup_container_is_called(const char *path, const char *text)
{
        struct piece wanted = piece_of(text);
        char name[CGROUP_NAME_MAX];
        size_t n;

        while (wanted.n > 1 && wanted.bytes[wanted.n - 1] == '/')
                wanted.n--;
        if (!*path || strcmp(path, "/") == 0 || !wanted.n)
                return false;
        cgroup_container_name(path, name);
        /* A longer name is cut. */
        n = wanted.n < sizeof(name) - 1 ? wanted.n : sizeof(name) - 1;
        return (strlen(name) == n && memcmp(name, wanted.bytes, n) == 0) ||
               (*path == '/' && ends(wanted, path));
}
