/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/core/report.h"

#include <grp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"
#include "proto/address.h"

int report_failure(const char *what, int result)
{
        (void)fprintf(stderr, "gpumemctl: %s: %s\n", what, last_error_reason(result));
        return result == GPUMEM_E_DISCONNECTED ? STATUS_NO_DAEMON : STATUS_FAILURE;
}

int report_unreachable(int result)
{
        (void)report_failure("no connection to gpumemd", result);
        return STATUS_NO_DAEMON;
}

/* Root's group gives more rights than these, so none is told to join it. Where the socket's folder is closed to this
 * user, its group cannot be seen. */
static void advise_to_join(const char *socket_path)
{
        struct sockaddr_un address;
        const struct group *group;
        struct stat status;

        if (address_to_connect(socket_path, &address) || stat(address.sun_path, &status))
                return;
        group = getgrgid(status.st_gid);
        if (status.st_gid == 0 || !group)
                (void)fprintf(stderr, "gpumemctl: start gpumemd with --group GROUP, where GROUP "
                                      "has this user as a member\n");
        else
                (void)fprintf(stderr,
                              "gpumemctl: its group is %s: \"usermod --append --groups %s USER\" "
                              "as root, then log in again\n",
                              group->gr_name, group->gr_name);
}

/* A daemon that is there must not be started: it is stopped, or hangs. */
int report_no_connection(int result, const struct arguments *arguments)
{
        int error = last_error_errno(result), status = report_unreachable(result);

        switch (error) {
        case ENOENT:
        case ECONNREFUSED:
                (void)fprintf(stderr,
                              "gpumemctl: start it with \"systemctl start gpumemd\", or try it "
                              "without a GPU: \"make play\" in its sources\n");
                break;
        case EAGAIN:
        case ETIMEDOUT:
                (void)fprintf(stderr,
                              "gpumemctl: continue it (kill -CONT PID), or restart it "
                              "(\"systemctl restart gpumemd\")%s\n",
                              error == EAGAIN ? ": programs keep their memory" : "");
                return status;
        case EACCES:
        case EPERM:
                advise_to_join(arguments->socket_path);
                return status;
        case EPROTOTYPE:
        case ENOTSOCK:
                break;
        default:
                return status;
        }
        (void)fprintf(stderr, "gpumemctl: if it listens elsewhere, use --socket PATH or set "
                              "GPUMEM_SOCKET; see gpumemctl help\n");
        return status;
}

static int report_with(struct link *link, const char *what, int result, const char *hint)
{
        char refusal[LINK_REFUSAL_MAX] = "";

        if (result > 0)
                link_refusal(link, refusal);
        if (!*refusal)
                return report_failure(what, result);
        (void)fprintf(stderr, "gpumemctl: %s: %s%s\n", what, refusal, hint);
        return STATUS_FAILURE;
}

int report_refusal(struct link *link, const char *what, int result)
{
        return report_with(link, what, result, "");
}

int report_refusal_of(struct link *link, const char *what, int result,
                      const struct arguments *arguments)
{
        bool can_be_narrower = result == GPUMEM_E_DENIED && arguments->scope == PROTO_SCOPE_NODE;

        return report_with(link, what, result,
                           can_be_narrower ? "; with --tenant it applies to your own memory only"
                                           : "");
}

long long json_figure(uint64_t value)
{
        return value > INT64_MAX ? INT64_MAX : (long long)value;
}

int print_json_value(struct json_t *take_value)
{
        int r = -1;

        if (take_value)
                r = json_dumpf(take_value, stdout, JSON_INDENT(2));
        json_decref(take_value);
        if (r) {
                (void)fprintf(stderr, "gpumemctl: out of memory\n");
                return STATUS_FAILURE;
        }
        (void)putchar('\n');
        return STATUS_OK;
}

int print_json_line(struct json_t *take_value)
{
        int r = take_value ? json_dumpf(take_value, stdout, JSON_COMPACT) : -1;

        json_decref(take_value);
        (void)putchar('\n');
        return r ? -ENOMEM : 0;
}

int flush_lines(void)
{
        if (fflush(stdout))
                return err_errno();
        return ferror(stdout) ? -EIO : 0;
}
