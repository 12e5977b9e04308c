/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runtime/settings.h"

#include <stdlib.h>

#include "base/size.h"
#include "client/runtime/last_error.h"
#include "gpumem.h"

int settings_read_cache_size(uint64_t *ret_n_bytes)
{
        const char *text = secure_getenv("GPUMEM_CACHE_SIZE");

        if (!text || !*text) {
                *ret_n_bytes = UINT64_MAX;
                return 0;
        }
        if (size_parse(text, ret_n_bytes)) {
                last_error_set_bad_setting(GPUMEM_E_BAD_CACHE_SIZE, "GPUMEM_CACHE_SIZE", text,
                                           "size; allowed: such as 0, 512MiB, 1.5GiB");
                return GPUMEM_E_BAD_CACHE_SIZE;
        }
        return 0;
}
