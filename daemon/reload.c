/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static void print_on_stderr(void *argument, const char *sentence)
{
        (void)argument;
        (void)fprintf(stderr, "gpumemd: %s\n", sentence);
}

static void print_in_log(void *argument, const char *sentence)
{
        (void)argument;
        log_error("%s", sentence);
}

const struct config_report config_report_stderr = {.print = print_on_stderr};
static const struct config_report log_report = {.print = print_in_log};

/* Settings of the file apply where neither the command line nor the environment sets a value. */
static void complete(struct options *options, const struct config *config)
{
        if (!options->socket_path && !secure_getenv("GPUMEM_SOCKET"))
                options->socket_path = config->socket_path;
        if (options->group == SOCKET_FILE_OWN_GROUP)
                options->group = config->group;
        if (!options->cuda_library && !secure_getenv("GPUMEM_CUDA_LIBRARY"))
                options->cuda_library = config->cuda_library;
        if (!options->nvml_library && !secure_getenv("GPUMEM_NVML_LIBRARY"))
                options->nvml_library = config->nvml_library;
        if (options->canary == CANARY_NOT_SAID)
                options->canary = config->canary;
        if (!options->says_log_level && config->says_log_level)
                options->log_level = config->log_level;
}

static void complete_settings(const struct options *options, struct settings *settings)
{
        settings->n_device_bytes = options->n_device_bytes;
        settings->n_pinned_bytes = options->n_pinned_bytes;
        settings->pinned_backing = options->pinned_backing;
}

/* A default file that does not exist is an empty one: an administrator removes the file to undo its
 * settings. */
static int load(const struct options *options, const struct config_report *report,
                struct config *ret_config)
{
        if (options->config_is_optional && access(options->config_path, F_OK) && errno == ENOENT) {
                *ret_config = CONFIG_NULL;
                return 0;
        }
        return config_load(options->config_path, report, ret_config);
}

int start_init(struct start *start, const struct options *options)
{
        struct start new_start = {.options = *options};
        int r = load(options, &config_report_stderr, &new_start.config);

        if (r)
                return r;
        complete(&new_start.options, &new_start.config);
        complete_settings(options, &new_start.config.settings);
        *start = new_start;
        return 0;
}

void start_deinit(struct start *start)
{
        config_deinit(&start->config);
}

static bool differ(const char *a, const char *b)
{
        return a && b ? strcmp(a, b) != 0 : a != b;
}

static void log_unchanged(const struct start *start, const char *key)
{
        log_warning("%s: \"%s\" has changed; this takes effect when gpumemd is restarted",
                    start->options.config_path, key);
}

static void log_what_cannot_change(const struct start *start, const struct config *config)
{
        if (differ(start->config.socket_path, config->socket_path))
                log_unchanged(start, "socket");
        if (start->config.group != config->group)
                log_unchanged(start, "group");
        if (differ(start->config.cuda_library, config->cuda_library))
                log_unchanged(start, "cuda_library");
        if (differ(start->config.nvml_library, config->nvml_library))
                log_unchanged(start, "nvml_library");
        if (start->config.canary != config->canary)
                log_unchanged(start, "canary");
        if (start->config.settings.tenancy != config->settings.tenancy)
                log_unchanged(start, "tenants");
}

/* If the file no longer names a level, the level of the start applies again. */
static void apply_log_level(const struct start *start, const struct config *config)
{
        struct options options = start->options;

        options.log_level = LOG_INFO;
        complete(&options, config);
        log_setup("gpumemd",
                  start->options.says_log_level ? start->options.log_level : options.log_level);
}

static void apply(struct server *server, struct start *start)
{
        struct config *config = &start->reading.config;

        log_what_cannot_change(start, config);
        apply_log_level(start, config);
        complete_settings(&start->options, &config->settings);
        if (server_apply_settings(server, &config->settings))
                log_error("out of memory; clients are not told of the pools' new limits");
        log_info("%s: configuration reloaded", start->options.config_path);
}

static void read_file(void *argument)
{
        struct start *start = argument;

        start->reading.result = load(&start->options, &log_report, &start->reading.config);
}

static void on_read(struct server *server, void *argument)
{
        struct start *start = argument;

        if (start->reading.result)
                log_error("%s: reload failed; the old configuration stays in force",
                          start->options.config_path);
        else if (!server_is_stopping(server))
                apply(server, start);
        if (!start->reading.result)
                config_deinit(&start->reading.config);
        if (start->reading.again && !server_is_stopping(server))
                start_reload(server, start);
}

void start_reload(struct server *server, void *argument)
{
        struct start *start = argument;
        int r = server_do_aside(server, read_file, on_read, start);

        start->reading.again = r == -EBUSY;
        if (r && r != -EBUSY)
                log_error("%s: cannot read it now; the old configuration stays in force",
                          start->options.config_path);
}
