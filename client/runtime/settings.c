/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/settings.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/size.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

static int read_size(const char *variable, const char *example, int error, uint64_t *ret_n_bytes)
{
        const char *text = secure_getenv(variable);

        if (!text || !*text) {
                *ret_n_bytes = UINT64_MAX;
                return 0;
        }
        if (size_parse(text, ret_n_bytes)) {
                last_error_set_bad_setting(error, variable, text, example);
                return error;
        }
        return 0;
}

int settings_read_cache_size(uint64_t *ret_n_bytes)
{
        return read_size("GPUMEM_CACHE_SIZE", "size; allowed: such as 0, 512MiB, 1.5GiB",
                         GPUMEM_E_BAD_CACHE_SIZE, ret_n_bytes);
}

int settings_read_limit(uint64_t *ret_n_bytes)
{
        return read_size("GPUMEM_MEMORY_LIMIT", "size; allowed: such as 512MiB, 1.5GiB",
                         GPUMEM_E_BAD_LIMIT, ret_n_bytes);
}

void settings_read_log(void)
{
        const char *text = secure_getenv("GPUMEM_LOG");
        enum log_level level;

        if (!text || !*text)
                return;
        if (log_level_parse(text, &level))
                log_warning("GPUMEM_LOG: \"%.100s\" is none of error, warning, info, debug", text);
        else
                log_setup_library(level);
}
