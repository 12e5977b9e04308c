#include "daemon/server/user.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/size.h"
#include "base/table.h"
#include "daemon/server/settings.h"

/* Where the system sets no limit. */
#define FDS_AT_MOST 1000000

#define QUEUED_BYTES_OF_ALL  (64 * MIB)
#define QUEUED_BYTES_OF_EACH (8 * MIB)

static unsigned max_fds(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > FDS_AT_MOST)
                return FDS_AT_MOST;
        return (unsigned)limit.rlim_cur;
}

/* Half of the fds are for sessions, a quarter for answers that wait, most of the rest for blocks: so
 * there is always one for what the daemon itself opens. What is in flight the kernel counts beside them,
 * up to the same number. */
void server_share_out(struct server *server)
{
        struct allowances *all = &server->allowances;

        all->max[ALLOWANCE_CONNECTIONS] = max_fds() / 2 / SESSION_N_FDS;
        all->max[ALLOWANCE_IN_FLIGHT] = max_fds() / 2;
        all->max[ALLOWANCE_QUEUED_FDS] = max_fds() / 4;
        all->max[ALLOWANCE_QUEUED_BYTES] = QUEUED_BYTES_OF_ALL;
        for (unsigned kind = 0; kind < ALLOWANCE_N_KINDS; kind++)
                all->max_each[kind] = UINT64_MAX;
        all->max_each[ALLOWANCE_QUEUED_BYTES] = QUEUED_BYTES_OF_EACH;
}

uint64_t server_max_blocks(void)
{
        return (uint64_t)max_fds() * 3 / 16;
}

void server_limit_users(struct server *server, const struct user_rule *rule)
{
        server->allowances.max_each[ALLOWANCE_CONNECTIONS] = rule->n_connections;
        server->pace = pace_rule_of(rule->n_requests_a_second);
}

static int user_new(struct server *server, uint32_t uid, struct user **ret_user)
{
        struct user *user = calloc(1, sizeof(*user));

        if (!user)
                return -ENOMEM;
        user->server = server;
        user->uid = uid;
        user->allowance.all = &server->allowances;
        HASH_ADD(hh, server->users, uid, sizeof(user->uid), user);
        if (!user->hh.tbl) {
                free(user);
                return -ENOMEM;
        }
        *ret_user = user;
        return 0;
}

int user_ref(struct server *server, uint32_t uid, struct user **ret_user)
{
        struct user *user;
        int r = 0;

        HASH_FIND(hh, server->users, &uid, sizeof(uid), user);
        if (!user)
                r = user_new(server, uid, &user);
        if (r)
                return r;
        user->n_refs++;
        *ret_user = user;
        return 0;
}

struct user *user_unref(struct user *user)
{
        if (!user || --user->n_refs)
                return NULL;
        assert(allowance_is_unused(&user->allowance));
        HASH_DEL(user->server->users, user);
        free(user);
        return NULL;
}
