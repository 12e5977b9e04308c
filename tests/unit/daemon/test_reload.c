/* SPDX-License-Identifier: Apache-2.0 */
/* The start options, and the configuration read again: against a server that only records its calls. */
#include "daemon/reload.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fdset.h"
#include "base/size.h"
#include "tests/suite.h"

#define TEXT_MAX 4096

static char path[64];
static struct options options;
static struct start start;
static char said[TEXT_MAX];
static enum log_level level;

/* Takes the place of the server, which reload.c only passes on. */
static struct {
        bool busy, stopping;
        void (*work)(void *argument);
        void (*done)(struct server *server, void *argument);
        void *argument;
        unsigned n_asked, n_applied;
        uint64_t n_device_bytes, n_pinned_bytes;
        enum pinned_backing pinned_backing;
        size_t n_rules;
        bool has_limits;
} told;

void __wrap_log_setup(const char *name, enum log_level threshold);
void __wrap_log_line(enum log_level line_level, const char *format, ...) PRINTF_LIKE(2, 3);

void __wrap_log_setup(const char *name, enum log_level threshold)
{
        (void)name;
        level = threshold;
}

void __wrap_log_line(enum log_level line_level, const char *format, ...)
{
        size_t length = strlen(said);
        va_list arguments;

        (void)line_level;
        va_start(arguments, format);
        (void)vsnprintf(said + length, sizeof(said) - length, format, arguments);
        va_end(arguments);
}

int server_do_aside(struct server *server, void (*work)(void *argument),
                    void (*done)(struct server *server, void *argument), void *argument)
{
        (void)server;
        told.n_asked++;
        if (told.busy)
                return -EBUSY;
        told.busy = true;
        told.work = work;
        told.done = done;
        told.argument = argument;
        return 0;
}

bool server_is_stopping(const struct server *server)
{
        (void)server;
        return told.stopping;
}

int server_apply_settings(struct server *server, struct settings *settings)
{
        (void)server;
        told.n_applied++;
        told.n_device_bytes = settings->n_device_bytes;
        told.n_pinned_bytes = settings->n_pinned_bytes;
        told.pinned_backing = settings->pinned_backing;
        told.n_rules = settings->n_rules;
        told.has_limits = settings->limits;
        return 0;
}

/* As the loop does it: the read is over, and the server accepts another. */
static void finish_read(void)
{
        ck_assert(told.busy);
        told.work(told.argument);
        told.busy = false;
        told.done(NULL, told.argument);
}

static void write_config(const char *text)
{
        FILE *file = fopen(path, "we");

        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs(text, file), 0);
        ck_assert_int_eq(fclose(file), 0);
}

static void set_up(void)
{
        int fd;

        (void)snprintf(path, sizeof(path), "/tmp/gpumemd-reload-XXXXXX");
        fd = mkostemp(path, O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        closep(&fd);
        memset(&told, 0, sizeof(told));
        *said = '\0';
        level = LOG_ERROR;
        options = (struct options){
                .log_level = LOG_INFO, .config_path = path, .group = SOCKET_FILE_OWN_GROUP};
        (void)unsetenv("GPUMEM_SOCKET");
        (void)unsetenv("GPUMEM_CUDA_LIBRARY");
}

static void tear_down(void)
{
        start_deinit(&start);
        (void)unlink(path);
}

static void must_start(const char *text)
{
        write_config(text);
        ck_assert_int_eq(start_init(&start, &options), 0);
}

static void reload(const char *text)
{
        if (text)
                write_config(text);
        *said = '\0';
        start_reload(NULL, &start);
        finish_read();
}

TEST(the_file_says_what_nobody_else_does)
{
        must_start("{\"socket\": \"/s\", \"cuda_library\": \"/c\", \"log\": \"debug\"}");
        ck_assert_str_eq(start.options.socket_path, "/s");
        ck_assert_str_eq(start.options.cuda_library, "/c");
        ck_assert_int_eq(start.options.log_level, LOG_DEBUG);
}

TEST(the_command_line_goes_before_it)
{
        options.socket_path = "/mine";
        options.cuda_library = "/also";
        options.log_level = LOG_ERROR;
        options.says_log_level = true;
        must_start("{\"socket\": \"/s\", \"cuda_library\": \"/c\", \"log\": \"debug\"}");
        ck_assert_str_eq(start.options.socket_path, "/mine");
        ck_assert_str_eq(start.options.cuda_library, "/also");
        ck_assert_int_eq(start.options.log_level, LOG_ERROR);
}

TEST(the_environment_goes_before_it)
{
        ck_assert_int_eq(setenv("GPUMEM_SOCKET", "/mine", 1), 0);
        ck_assert_int_eq(setenv("GPUMEM_CUDA_LIBRARY", "/also", 1), 0);
        must_start("{\"socket\": \"/s\", \"cuda_library\": \"/c\"}");
        ck_assert_ptr_null(start.options.socket_path);
        ck_assert_ptr_null(start.options.cuda_library);
}

TEST(what_the_command_line_says_of_pools_stays)
{
        options.n_device_bytes = 64 * MIB;
        options.n_pinned_bytes = 32 * MIB;
        options.pinned_backing = PINNED_VMM;
        must_start("{}");
        ck_assert_uint_eq(start.config.settings.n_device_bytes, 64 * MIB);
        ck_assert_uint_eq(start.config.settings.n_pinned_bytes, 32 * MIB);
        ck_assert_int_eq(start.config.settings.pinned_backing, PINNED_VMM);
        reload("{\"pools\": [{\"device\": 0, \"max_bytes\": \"2MiB\"}]}");
        ck_assert_uint_eq(told.n_applied, 1);
        ck_assert_uint_eq(told.n_rules, 1);
        ck_assert_uint_eq(told.n_device_bytes, 64 * MIB);
        ck_assert_uint_eq(told.n_pinned_bytes, 32 * MIB);
        ck_assert_int_eq(told.pinned_backing, PINNED_VMM);
}

TEST(the_log_level_follows_the_file)
{
        must_start("{\"log\": \"error\"}");
        reload("{\"log\": \"debug\"}");
        ck_assert_int_eq(level, LOG_DEBUG);
        reload("{\"log\": \"warning\"}");
        ck_assert_int_eq(level, LOG_WARNING);
        reload("{}");
        ck_assert_int_eq(level, LOG_INFO);
}

TEST(a_log_level_of_the_command_line_stays)
{
        options.log_level = LOG_WARNING;
        options.says_log_level = true;
        must_start("{}");
        reload("{\"log\": \"debug\"}");
        ck_assert_int_eq(level, LOG_WARNING);
}

TEST(a_wrong_file_changes_nothing)
{
        must_start("{\"log\": \"error\"}");
        reload("{\"log\": \"debug\", \"pools\": 7}");
        ck_assert_uint_eq(told.n_applied, 0);
        ck_assert_int_eq(level, LOG_ERROR);
        ck_assert_ptr_nonnull(strstr(said, "pools: invalid list 7 (expected"));
        ck_assert_ptr_nonnull(strstr(said, "the old configuration stays in force"));
}

TEST(a_signal_during_the_read_has_the_file_read_again)
{
        must_start("{}");
        start_reload(NULL, &start);
        start_reload(NULL, &start);
        start_reload(NULL, &start);
        ck_assert_uint_eq(told.n_asked, 3);
        finish_read();
        ck_assert_uint_eq(told.n_asked, 4);
        finish_read();
        ck_assert_uint_eq(told.n_asked, 4);
        ck_assert_uint_eq(told.n_applied, 2);
}

TEST(a_server_that_ends_is_left_alone)
{
        must_start("{}");
        start_reload(NULL, &start);
        start_reload(NULL, &start);
        told.stopping = true;
        finish_read();
        ck_assert_uint_eq(told.n_applied, 0);
        ck_assert_uint_eq(told.n_asked, 2);
}

TEST(what_cannot_change_is_said)
{
        must_start("{\"socket\": \"/s\"}");
        reload("{\"socket\": \"/s\"}");
        ck_assert_ptr_null(strstr(said, "has changed"));
        reload("{\"socket\": \"/t\"}");
        ck_assert_ptr_nonnull(strstr(said, "\"socket\" has changed"));
        ck_assert_ptr_null(strstr(said, "cuda_library"));
        reload("{\"socket\": \"/s\", \"cuda_library\": \"/c\"}");
        ck_assert_ptr_nonnull(strstr(said, "\"cuda_library\" has changed"));
        ck_assert_ptr_null(strstr(said, "\"socket\""));
        reload("{\"socket\": \"/s\", \"nvml_library\": \"/n\", \"canary\": \"off\"}");
        ck_assert_ptr_nonnull(strstr(said, "\"nvml_library\" has changed"));
        ck_assert_ptr_nonnull(strstr(said, "\"canary\" has changed"));
        reload("{\"socket\": \"/s\", \"group\": 7}");
        ck_assert_ptr_nonnull(strstr(said, "\"group\" has changed"));
        reload("{\"socket\": \"/s\", \"tenants\": \"container\"}");
        ck_assert_ptr_null(strstr(said, "has changed"));
        reload("{\"socket\": \"/s\", \"tenants\": \"uid\"}");
        ck_assert_ptr_nonnull(strstr(said, "\"tenants\" has changed"));
        reload("{}");
        ck_assert_ptr_nonnull(strstr(said, "\"socket\" has changed"));
}

TEST(a_default_file_need_not_be_there)
{
        options.config_is_optional = true;
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(start_init(&start, &options), 0);
        ck_assert_uint_eq(start.config.settings.n_rules, 0);
        reload("{\"log\": \"debug\", \"limits\": {\"client\": {\"leases\": 1}}}");
        ck_assert(told.has_limits);
        ck_assert_int_eq(unlink(path), 0);
        reload(NULL);
        ck_assert_uint_eq(told.n_applied, 2);
        ck_assert(!told.has_limits);
        ck_assert_int_eq(level, LOG_INFO);
}

TEST(a_file_that_was_asked_for_must_be_there)
{
        struct start other;

        must_start("{}");
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(start_init(&other, &options), -ENOENT);
        reload(NULL);
        ck_assert_uint_eq(told.n_applied, 0);
        ck_assert_ptr_nonnull(strstr(said, "No such file"));
}

TEST(a_default_file_that_cannot_be_read_is_a_fault)
{
        options.config_is_optional = true;
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(symlink(path, path), 0);
        ck_assert_int_eq(start_init(&start, &options), -ELOOP);
}

TESTS_MAIN("reload", .start = set_up, .stop = tear_down)
