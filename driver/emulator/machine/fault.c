/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/fault.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdset.h"
#include "driver/emulator/machine/library.h"

#define FILE_NAME "faults"
#define FILE_MAX  4096
#define POLL_US   500

/* Identifies one content of the file; all zero without a file. */
struct stamp {
        ino_t inode;
        off_t n_bytes;
        struct timespec changed;
};

unsigned fault_n_armed;

static struct {
        pthread_mutex_t mutex;
        int directory_fd;
        bool has_file;          /* the file is looked for */
        struct fault_rules own; /* of the environment */
        struct fault_rules rules;
        uint64_t n_calls[FAULT_RULES_MAX]; /* by rule, since they are in force */
        uint64_t generation;
        CUresult lost;
        struct stamp stamp;
        enum { FILE_ABSENT, FILE_PRESENT } file; /* atomic */
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Under the mutex. */
static void rules_put(const struct fault_rules *rules)
{
        state.rules = *rules;
        memset(state.n_calls, 0, sizeof(state.n_calls));
        state.lost = CUDA_SUCCESS;
        state.generation++;
        __atomic_store_n(&fault_n_armed, rules->n, __ATOMIC_RELEASE);
}

static bool call_exists(void *library, const char *call)
{
        char name[FAULT_CALL_MAX + 8];

        if (*call == '\0' || dlsym(library, call))
                return true;
        for (int version = 2; version < 10; version++) {
                (void)snprintf(name, sizeof(name), "%s_v%d", call, version);
                if (dlsym(library, name))
                        return true;
        }
        return false;
}

static int rules_check(const struct fault_rules *rules, char *ret_reason)
{
        void *library = library_self();
        int r = 0;

        for (unsigned i = 0; library && !r && i < rules->n; i++)
                if (!call_exists(library, rules->items[i].call))
                        r = config_refuse(ret_reason, "the driver has no %s that could fail",
                                          rules->items[i].call);
        return r;
}

static int text_read(int fd, char ret_text[static FILE_MAX])
{
        ssize_t n = read(fd, ret_text, FILE_MAX - 1);

        if (n < 0)
                return err_errno();
        if (n == FILE_MAX - 1)
                return -E2BIG;
        ret_text[n] = '\0';
        return 0;
}

/* An invalid rule is logged once for each content of the file, which then has no rules at all. */
static void file_read(int fd, struct fault_rules *ret_rules)
{
        char text[FILE_MAX], reason[CONFIG_REASON_MAX];
        struct fault_rules rules = {0};
        unsigned line = 0;
        int r = text_read(fd, text);

        if (!r)
                r = fault_rules_read(&rules, text, (uint64_t)getpid(), &line);
        if (r)
                (void)config_refuse(reason, "line %u is no fault, or one too many", line);
        else
                r = rules_check(&rules, reason);
        if (r)
                (void)fprintf(stderr, "libcuda-emu: " FILE_NAME ": %s\n", reason);
        else
                *ret_rules = rules;
}

/* Under the mutex. */
static void file_update(void)
{
        CLEANUP(closep)
        int fd = openat(state.directory_fd, FILE_NAME, O_RDONLY | O_CLOEXEC);
        struct fault_rules rules = {0};
        struct stamp stamp = {0};
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) == 0)
                stamp = (struct stamp){
                        .inode = st.st_ino, .n_bytes = st.st_size, .changed = st.st_mtim};
        if (stamp.inode == state.stamp.inode && stamp.n_bytes == state.stamp.n_bytes &&
            stamp.changed.tv_sec == state.stamp.changed.tv_sec &&
            stamp.changed.tv_nsec == state.stamp.changed.tv_nsec)
                return;
        state.stamp = stamp;
        __atomic_store_n(&state.file, stamp.inode ? FILE_PRESENT : FILE_ABSENT, __ATOMIC_RELEASE);
        if (stamp.inode)
                file_read(fd, &rules);
        rules_put(stamp.inode ? &rules : &state.own);
}

void fault_look(void)
{
        if (!state.has_file)
                return;
        if (__atomic_load_n(&state.file, __ATOMIC_ACQUIRE) == FILE_ABSENT &&
            faccessat(state.directory_fd, FILE_NAME, F_OK, 0) < 0)
                return;
        (void)pthread_mutex_lock(&state.mutex);
        file_update();
        (void)pthread_mutex_unlock(&state.mutex);
}

int fault_init(const struct config *config, int directory_fd, char ret_reason[CONFIG_REASON_MAX])
{
        const struct fault_rules *rules = &config->faults;
        int r = rules_check(rules, ret_reason);

        if (r)
                return r;
        state.directory_fd = directory_fd;
        state.has_file = config->has_fault_file;
        state.own = *rules;
        rules_put(rules);
        fault_look();
        return 0;
}

/* The faults that apply to a call. */
struct fate {
        uint64_t delay_us;
        uint64_t hangs_in; /* the generation of the rules that say so; 0: none do */
        CUresult result;
};

/* For tests that make each of them fail in turn. */
static void count_write(uint64_t n)
{
        char name[32];
        CLEANUP(closep)
        int fd = -1;

        (void)snprintf(name, sizeof(name), "calls.%d", (int)getpid());
        fd = openat(state.directory_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
                (void)dprintf(fd, "%ju\n", (uintmax_t)n);
}

static void rule_apply(const struct fault_rule *rule, uint64_t n, struct fate *fate)
{
        switch (rule->kind) {
        case FAULT_FAIL:
                if (fate->result == CUDA_SUCCESS)
                        fate->result = (CUresult)rule->value;
                break;
        case FAULT_DELAY:
                fate->delay_us += rule->value;
                break;
        case FAULT_HANG:
                fate->hangs_in = state.generation;
                break;
        case FAULT_LOST:
                if (state.lost == CUDA_SUCCESS)
                        state.lost = (CUresult)rule->value;
                break;
        case FAULT_COUNT:
                count_write(n);
                break;
        case FAULT_SEED:
                break;
        }
}

static struct fate fate_of(const char *call)
{
        struct fate fate = {0};

        (void)pthread_mutex_lock(&state.mutex);
        for (unsigned i = 0; i < state.rules.n; i++) {
                const struct fault_rule *rule = &state.rules.items[i];

                if (!fault_rule_names(rule, call))
                        continue;
                state.n_calls[i]++;
                if (fault_rule_strikes(&state.rules, i, state.n_calls[i]))
                        rule_apply(rule, state.n_calls[i], &fate);
        }
        if (state.lost != CUDA_SUCCESS)
                fate.result = state.lost;
        (void)pthread_mutex_unlock(&state.mutex);
        return fate;
}

static void hang_on(uint64_t generation)
{
        uint64_t now = generation;

        while (now == generation) {
                clock_sleep_us(POLL_US);
                fault_look();
                (void)pthread_mutex_lock(&state.mutex);
                now = state.generation;
                (void)pthread_mutex_unlock(&state.mutex);
        }
}

CUresult fault_apply(const char *call)
{
        struct fate fate = fate_of(call);

        clock_sleep_us(fate.delay_us);
        if (fate.hangs_in)
                hang_on(fate.hangs_in);
        return fate.result;
}
