#include "daemon/server/user.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/table.h"
#include "gpumem.h"

/* Where the system sets no limit. */
#define FDS_AT_MOST 1000000

struct user {
        struct server *server;
        uint32_t uid;
        unsigned n_sessions;
        unsigned n_in_flight;
        UT_hash_handle hh;
};

static unsigned max_fds(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > FDS_AT_MOST)
                return FDS_AT_MOST;
        return (unsigned)limit.rlim_cur;
}

/* Half of the fds are for sessions, the other half for blocks and answers. */
void server_share_fds(struct server *server)
{
        server->shares.max_sessions = max_fds() / 2 / SESSION_N_FDS;
        server->shares.max_in_flight = max_fds() / 2;
}

static int user_new(struct server *server, uint32_t uid, struct user **ret_user)
{
        struct user *user = calloc(1, sizeof(*user));

        if (!user)
                return -ENOMEM;
        user->server = server;
        user->uid = uid;
        HASH_ADD(hh, server->users, uid, sizeof(user->uid), user);
        if (!user->hh.tbl) {
                free(user);
                return -ENOMEM;
        }
        *ret_user = user;
        return 0;
}

/* n more on top of what the user has, where all users have `all` of `max`. */
static bool fits(unsigned n, unsigned own, unsigned all, unsigned max)
{
        return all + n <= max && own + n <= max - all;
}

int user_ref(struct server *server, uint32_t uid, struct user **ret_user)
{
        struct user *user;
        int r = 0;

        HASH_FIND(hh, server->users, &uid, sizeof(uid), user);
        if (!fits(1, user ? user->n_sessions : 0, server->shares.n_sessions,
                  server->shares.max_sessions))
                return GPUMEM_E_TOO_MANY;
        if (!user)
                r = user_new(server, uid, &user);
        if (r)
                return r;
        user->n_sessions++;
        server->shares.n_sessions++;
        *ret_user = user;
        return 0;
}

struct user *user_unref(struct user *user)
{
        if (!user)
                return NULL;
        user->server->shares.n_sessions--;
        if (--user->n_sessions)
                return NULL;
        assert(!user->n_in_flight);
        HASH_DEL(user->server->users, user);
        free(user);
        return NULL;
}

bool user_may_send(const struct user *user, unsigned n_fds)
{
        return fits(n_fds, user->n_in_flight, user->server->shares.n_in_flight,
                    user->server->shares.max_in_flight);
}

void user_note_sent(struct user *user, unsigned n_fds)
{
        user->n_in_flight += n_fds;
        user->server->shares.n_in_flight += n_fds;
}

void user_note_received(struct user *user, unsigned n_fds)
{
        assert(user->n_in_flight >= n_fds);
        user->n_in_flight -= n_fds;
        user->server->shares.n_in_flight -= n_fds;
}
