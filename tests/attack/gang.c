/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/gang.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/live/support/containers.h"

#define NAMESPACE_UIDS 100000u /* of the host, for those of a container's namespace */
#define POLL_US        5000
#define PREFERRED      (-15)

struct gang_control {
        atomic_bool may_go;
        atomic_bool is_paused;
        atomic_uint_least64_t words[GANG_WORDS];
        struct gang_member members[GANG_MEMBERS_MAX];
};

struct gang {
        const struct gang_rule *rule;
        struct gang_control *control;
        unsigned n_pids; /* of its own children: the members, or the leader of their namespace */
        pid_t pids[GANG_MEMBERS_MAX];
};

static bool has_containers;

static void must(bool is_so, const char *what)
{
        if (is_so)
                return;
        perror(what);
        abort();
}

static enum cgroup_tree tree(void)
{
        static enum cgroup_tree found = CGROUPS_N_TREES;

        if (found == CGROUPS_N_TREES)
                (void)containers_find_tree(&found);
        return found;
}

bool gang_can_be(enum gang_place place)
{
        return geteuid() == 0 && (place == GANG_ON_HOST || tree() != CGROUPS_N_TREES);
}

void gang_remove_containers(void)
{
        if (has_containers)
                containers_remove(tree());
        has_containers = false;
}

static void become(uid_t uid)
{
        must(setgroups(0, NULL) == 0 && setresgid(uid, uid, uid) == 0 &&
                     setresuid(uid, uid, uid) == 0,
             "setresuid");
}

/* A change of user ends the wish to die with the parent. */
static void be_bounded(void)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(GANG_SECONDS_MAX);
}

pid_t gang_fork(void)
{
        pid_t pid = fork();

        if (pid == 0)
                be_bounded();
        return pid;
}

static void be_member(const struct gang_rule *rule, struct gang_member *self, uid_t uid)
{
        if (rule->comes_first)
                (void)setpriority(PRIO_PROCESS, 0, PREFERRED);
        become(uid);
        be_bounded();
        self->pid = getpid();
        rule->work(self);
        _exit(EXIT_SUCCESS);
}

static void fill(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
        (void)close(fd);
}

/* Uids 0 and 1 to n of the namespace. */
static void map_ids(pid_t pid, const struct gang_rule *rule)
{
        static const char *const files[] = {"uid_map", "gid_map"};

        for (unsigned i = 0; i < 2; i++) {
                char path[64], map[96];

                (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
                (void)snprintf(map, sizeof(map), "0 %u 1\n1 %u %u\n", (unsigned)rule->uid,
                               NAMESPACE_UIDS, rule->n);
                fill(path, map);
        }
}

/* The container's root, who starts the others. */
static void lead(struct gang *gang, int ready, int mapped)
{
        const struct gang_rule *rule = gang->rule;
        char byte = 0;

        become(rule->uid);
        (void)prctl(PR_SET_DUMPABLE, 1);
        must(unshare(CLONE_NEWUSER) == 0, "unshare");
        must(write(ready, &byte, 1) == 1 && read(mapped, &byte, 1) == 1, "a namespace");
        be_bounded();
        must(setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0, "root of a namespace");
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned i = 0; i < rule->n; i++) {
                if (fork() == 0)
                        be_member(rule, &gang->control->members[i], i);
        }
        while (wait(NULL) > 0)
                continue;
        _exit(EXIT_SUCCESS);
}

static void start_namespace(struct gang *gang)
{
        int ready[2], mapped[2];
        char byte = 0;
        pid_t pid;

        must(pipe2(ready, O_CLOEXEC) == 0 && pipe2(mapped, O_CLOEXEC) == 0, "pipe2");
        container_enter(tree(), 0);
        has_containers = true;
        pid = fork();
        must(pid >= 0, "fork");
        if (pid == 0)
                lead(gang, ready[1], mapped[0]);
        container_leave(tree());
        must(read(ready[0], &byte, 1) == 1, "a namespace");
        map_ids(pid, gang->rule);
        must(write(mapped[1], &byte, 1) == 1, "a namespace");
        for (unsigned i = 0; i < 2; i++) {
                (void)close(ready[i]);
                (void)close(mapped[i]);
        }
        gang->pids[gang->n_pids++] = pid;
}

static void start_member(struct gang *gang, unsigned i)
{
        const struct gang_rule *rule = gang->rule;
        pid_t pid;

        if (rule->place == GANG_IN_CONTAINERS) {
                container_enter(tree(), i);
                has_containers = true;
        }
        pid = fork();
        must(pid >= 0, "fork");
        if (pid == 0)
                be_member(rule, &gang->control->members[i],
                          rule->uid + (rule->each_a_user ? i : 0));
        if (rule->place == GANG_IN_CONTAINERS)
                container_leave(tree());
        gang->pids[gang->n_pids++] = pid;
}

struct gang *gang_start(const struct gang_rule *rule)
{
        struct gang *gang = calloc(1, sizeof(*gang));

        must(gang && rule->n <= GANG_MEMBERS_MAX, "a gang");
        gang->rule = rule;
        gang->control = mmap(NULL, sizeof(*gang->control), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        must(gang->control != MAP_FAILED, "mmap");
        (void)fflush(NULL);
        for (unsigned i = 0; i < rule->n; i++) {
                gang->control->members[i].rule = rule;
                gang->control->members[i].control = gang->control;
                gang->control->members[i].index = i;
        }
        if (rule->place == GANG_IN_CONTAINER)
                start_namespace(gang);
        for (unsigned i = 0; rule->place != GANG_IN_CONTAINER && i < rule->n; i++)
                start_member(gang, i);
        return gang;
}

bool gang_await(struct gang *gang, unsigned seconds)
{
        uint64_t end_ns = clock_now_ns() + seconds * NS_PER_S;

        for (unsigned i = 0; i < gang->rule->n; i++) {
                while (!gang->control->members[i].is_ready) {
                        if (clock_now_ns() >= end_ns)
                                return false;
                        (void)usleep(POLL_US);
                }
        }
        return true;
}

void gang_go(struct gang *gang)
{
        gang->control->may_go = true;
}

void gang_pause(struct gang *gang, bool is_paused)
{
        gang->control->is_paused = is_paused;
}

void gang_kill(struct gang *gang)
{
        for (unsigned i = 0; i < gang->n_pids; i++)
                (void)kill(gang->pids[i], SIGKILL);
}

struct gang_counts gang_count(const struct gang *gang)
{
        struct gang_counts sum = {.n_done = 0};

        for (unsigned i = 0; i < gang->rule->n; i++) {
                const struct gang_member *member = &gang->control->members[i];

                sum.n_done += member->n_done;
                sum.n_refused += member->n_refused;
                sum.n_failed += member->n_failed;
                if (!sum.first_error)
                        sum.first_error = member->first_error;
        }
        return sum;
}

void gang_end(struct gang *gang)
{
        gang_kill(gang);
        for (unsigned i = 0; i < gang->n_pids; i++)
                (void)waitpid(gang->pids[i], NULL, 0);
        (void)munmap(gang->control, sizeof(*gang->control));
        free(gang);
}

void gang_is_ready(struct gang_member *self)
{
        self->is_ready = true;
        while (!self->control->may_go)
                (void)usleep(POLL_US);
}

atomic_uint_least64_t *gang_words(struct gang_member *self)
{
        return self->control->words;
}

void gang_pass(struct gang_member *self)
{
        while (self->control->is_paused)
                (void)usleep(POLL_US);
}
