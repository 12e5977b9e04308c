/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdset.h"
#include "base/size.h"
#include "daemon/config/config_parts.h"
#include "daemon/policy/drain.h"

#define FILE_BYTES_MAX (1 * MIB)

void config_deinit(struct config *config)
{
        free(config->socket_path);
        free(config->cuda_library);
        free(config->nvml_library);
        settings_deinit(&config->settings);
        *config = CONFIG_NULL;
}

/* gpumemd trusts the file with its own privileges: it names the libraries to load, and the user that is
 * served. The rule for groups is that of the socket's folder (server/transport/socket_file.c). */
static int check_writers(struct reader *reader, const struct stat *status)
{
        char allowed[80] = "root, as which this gpumemd runs,";

        if (geteuid() != 0)
                (void)snprintf(allowed, sizeof(allowed),
                               "root and uid %u, as which this gpumemd runs,", (unsigned)geteuid());
        if (status->st_uid != 0 && status->st_uid != geteuid())
                reader_complain(reader, "",
                                "uid %u owns it and may change it; only %s may: chown it",
                                (unsigned)status->st_uid, allowed);
        else if (status->st_mode & S_IWOTH)
                reader_complain(reader, "",
                                "every user may write to it (mode %04o); only %s may: chmod o-w it",
                                (unsigned)status->st_mode & 07777, allowed);
        else if (status->st_mode & S_IWGRP && status->st_gid != 0 && status->st_gid != getegid())
                reader_complain(reader, "",
                                "group %u may write to it (mode %04o); only root's group and that "
                                "of this gpumemd may: chmod g-w it",
                                (unsigned)status->st_gid, (unsigned)status->st_mode & 07777);
        else
                return 0;
        return -EPERM;
}

/* O_NONBLOCK, so that opening a pipe does not wait for a writer. */
static int open_file(struct reader *reader, int *ret_fd)
{
        CLEANUP(closep)
        int fd = open(reader->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat status;

        if (fd < 0 || fstat(fd, &status) < 0) {
                int r = err_errno();

                reader_complain(reader, "", "%s", strerror(-r));
                return r;
        }
        if (!S_ISREG(status.st_mode)) {
                reader_complain(reader, "", "not a regular file");
                return -EINVAL;
        }
        if (check_writers(reader, &status))
                return -EPERM;
        *ret_fd = steal_fd(&fd);
        return 0;
}

/* Reads the file, up to one byte more than allowed. */
static int read_bytes(struct reader *reader, char *bytes, size_t *ret_n)
{
        CLEANUP(closep)
        int fd = -1;
        size_t n = 0;
        ssize_t more = 1;
        int r = open_file(reader, &fd);

        if (r)
                return r;
        while (more > 0 && n <= FILE_BYTES_MAX) {
                more = read(fd, bytes + n, FILE_BYTES_MAX + 1 - n);
                if (more < 0) {
                        r = err_errno();
                        reader_complain(reader, "", "%s", strerror(-r));
                        return r;
                }
                n += (size_t)more;
        }
        if (n > FILE_BYTES_MAX) {
                reader_complain(reader, "", "larger than 1 MiB, the maximum");
                return -EINVAL;
        }
        *ret_n = n;
        return 0;
}

static int parse(struct reader *reader, const char *bytes, size_t n, json_t **ret_json)
{
        json_error_t error;
        json_t *json = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error);
        char place[KEY_PATH_MAX];

        if (!json) {
                (void)snprintf(place, sizeof(place), "%s:%d:%d", reader->file, error.line,
                               error.column);
                reader->file = place;
                reader_complain(reader, "", "%s", error.text);
                return -EINVAL;
        }
        *ret_json = json;
        return 0;
}

static void copy_text(struct reader *reader, const char *path, const json_t *json, char **text)
{
        const char *value;

        if (!json || !reader_text(reader, path, json, &value))
                return;
        *text = strdup(value);
        if (!*text)
                reader_complain(reader, path, "out of memory");
}

/* A relative path would depend on the daemon's working directory. */
static void read_socket(struct reader *reader, const json_t *json, struct config *config)
{
        copy_text(reader, "socket", json, &config->socket_path);
        if (config->socket_path && *config->socket_path != '/')
                reader_refuse(reader, "socket", json, "path", "an absolute path");
}

static void read_log(struct reader *reader, const json_t *json, struct config *config)
{
        if (!json)
                return;
        config->says_log_level = true;
        if (!json_is_string(json) || log_level_parse(json_string_value(json), &config->log_level))
                reader_refuse(reader, "log", json, "level",
                              "\"error\", \"warning\", \"info\" or \"debug\"");
}

static void read_user(struct reader *reader, const json_t *json, struct settings *settings)
{
        if (json)
                settings->says_user = config_read_uid(reader, "user", json, &settings->user);
}

int canary_wish_parse(const char *text, enum canary_wish *ret_wish)
{
        if (strcmp(text, "on") == 0)
                *ret_wish = CANARY_ON;
        else if (strcmp(text, "off") == 0)
                *ret_wish = CANARY_OFF;
        else
                return -EINVAL;
        return 0;
}

static void read_canary(struct reader *reader, const json_t *json, struct config *config)
{
        if (json &&
            (!json_is_string(json) || canary_wish_parse(json_string_value(json), &config->canary)))
                reader_refuse(reader, "canary", json, "choice", "\"on\" or \"off\"");
}

static void read_tenants(struct reader *reader, const json_t *json, struct settings *settings)
{
        if (json &&
            (!json_is_string(json) || tenancy_parse(json_string_value(json), &settings->tenancy)))
                reader_refuse(reader, "tenants", json, "choice",
                              "\"container\", \"uid\" or \"client\"");
}

static void read_drain(struct reader *reader, const json_t *json, struct settings *settings)
{
        if (!json)
                return;
        if (json_is_integer(json) && json_integer_value(json) >= 0 &&
            json_integer_value(json) <= DRAIN_SECONDS_MAX)
                settings->n_drain_seconds = (uint64_t)json_integer_value(json);
        else
                reader_refuse(reader, "drain_seconds", json, "number of seconds", "0 to 3600");
}

static void read_all(struct reader *reader, const json_t *json, struct config *config)
{
        static const char *const keys[] = {
                "socket",  "group", "cuda_library", "nvml_library", "canary",        "log", "user",
                "tenants", "pools", "limits",       "each_user",    "drain_seconds", NULL};
        const json_t *pools = json_object_get(json, "pools");
        const json_t *limits = json_object_get(json, "limits");

        if (!reader_object(reader, "", json, keys))
                return;
        read_socket(reader, json_object_get(json, "socket"), config);
        config_read_group(reader, json_object_get(json, "group"), &config->group);
        copy_text(reader, "cuda_library", json_object_get(json, "cuda_library"),
                  &config->cuda_library);
        copy_text(reader, "nvml_library", json_object_get(json, "nvml_library"),
                  &config->nvml_library);
        read_canary(reader, json_object_get(json, "canary"), config);
        read_drain(reader, json_object_get(json, "drain_seconds"), &config->settings);
        read_log(reader, json_object_get(json, "log"), config);
        read_user(reader, json_object_get(json, "user"), &config->settings);
        read_tenants(reader, json_object_get(json, "tenants"), &config->settings);
        if (pools)
                config_read_pools(reader, pools, &config->settings);
        if (limits)
                config_read_limits(reader, limits, &config->settings);
        config_read_each_user(reader, json_object_get(json, "each_user"),
                              &config->settings.each_user);
        if (!reader->n_faults)
                config_check_ipc(reader, &config->settings);
}

int config_parse(const char *path, const char *bytes, size_t n_bytes,
                 const struct config_report *report, struct config *ret_config)
{
        struct reader reader = {.file = path, .print = report->print, .argument = report->argument};
        struct config config = CONFIG_NULL;
        json_t *json;
        int r = parse(&reader, bytes, n_bytes, &json);

        if (r)
                return r;
        read_all(&reader, json, &config);
        json_decref(json);
        if (reader.n_faults) {
                config_deinit(&config);
                return -EINVAL;
        }
        *ret_config = config;
        return 0;
}

int config_load(const char *path, const struct config_report *report, struct config *ret_config)
{
        CLEANUP(freep)
        char *bytes = malloc(FILE_BYTES_MAX + 1);
        struct reader reader = {.file = path, .print = report->print, .argument = report->argument};
        size_t n_bytes;
        int r;

        if (!bytes) {
                reader_complain(&reader, "", "out of memory");
                return -ENOMEM;
        }
        r = read_bytes(&reader, bytes, &n_bytes);
        return r ? r : config_parse(path, bytes, n_bytes, report, ret_config);
}
