/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/emulator/machine/visible.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

void visible_uuid(const uint8_t seed[static UUID_BYTES], unsigned index,
                  uint8_t ret_uuid[static UUID_BYTES])
{
        memcpy(ret_uuid, seed, UUID_BYTES);
        ret_uuid[0] ^= (uint8_t)(index * 0x35);
        ret_uuid[UUID_BYTES - 1] ^= (uint8_t)index;
}

/* The only device whose UUID has that prefix, or -1. */
static int find_by_uuid(const char *prefix, enum uuid_kind kind, const uint8_t *seed,
                        unsigned n_devices)
{
        uint8_t uuid[UUID_BYTES];
        char text[UUID_TEXT_MAX];
        int found = -1;

        for (unsigned i = 0; i < n_devices; i++) {
                visible_uuid(seed, i, uuid);
                uuid_print(kind, uuid, text);
                if (strncasecmp(text, prefix, strlen(prefix)) != 0)
                        continue;
                if (found >= 0)
                        return -1;
                found = (int)i;
        }
        return found;
}

static int find(const char *entry, enum uuid_kind kind, const uint8_t *seed, unsigned n_devices)
{
        char *end;
        unsigned long index;

        if (strlen(entry) >= UUID_PREFIX_CHARS && entry[UUID_PREFIX_CHARS - 1] == '-')
                return find_by_uuid(entry, kind, seed, n_devices);
        index = strtoul(entry, &end, 10);
        return end == entry || *end || index >= n_devices ? -1 : (int)index;
}

static bool contains(const unsigned *indexes, unsigned n, unsigned index)
{
        for (unsigned i = 0; i < n; i++)
                if (indexes[i] == index)
                        return true;
        return false;
}

unsigned visible_devices(const char *text, enum uuid_kind kind,
                         const uint8_t seed[static UUID_BYTES], unsigned n_devices,
                         unsigned *ret_indexes)
{
        CLEANUP(freep)
        char *copy = text ? strdup(text) : NULL;
        char *rest = copy, *entry;
        unsigned n = 0;

        if (!text) {
                for (; n < n_devices; n++)
                        ret_indexes[n] = n;
                return n;
        }
        while ((entry = strsep(&rest, ","))) {
                int index = find(entry + strspn(entry, " "), kind, seed, n_devices);

                if (index < 0 || contains(ret_indexes, n, (unsigned)index))
                        break;
                ret_indexes[n++] = (unsigned)index;
        }
        return n;
}
