/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/demo/pattern.h"

#include <string.h>

#define EDGE_BYTES  (4 * KIB)
#define INNER_BYTES 64

/* splitmix64: neighbouring inputs give unrelated bytes. */
static uint64_t mix(uint64_t x)
{
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

/* Every 64 KiB has an inner cell, except where an edge covers its place. */
uint64_t pattern_n_cells(uint64_t n_bytes)
{
        if (n_bytes <= PATTERN_WHOLE_BYTES)
                return 1;
        return 2 + (n_bytes - EDGE_BYTES - INNER_BYTES) / PATTERN_WHOLE_BYTES;
}

struct cell pattern_cell(uint64_t n_bytes, uint64_t index)
{
        if (n_bytes <= PATTERN_WHOLE_BYTES)
                return (struct cell){0, n_bytes};
        if (index == 0)
                return (struct cell){0, EDGE_BYTES};
        if (index == 1)
                return (struct cell){n_bytes - EDGE_BYTES, EDGE_BYTES};
        return (struct cell){(index - 1) * PATTERN_WHOLE_BYTES, INNER_BYTES};
}

static uint64_t word_at(uint64_t tag, uint64_t position)
{
        return mix(mix(tag) ^ position);
}

void pattern_fill(uint64_t tag, struct cell cell, unsigned char *ret_bytes)
{
        for (uint64_t i = 0; i < cell.n_bytes; i += 8) {
                uint64_t word = word_at(tag, cell.offset + i);
                uint64_t n = cell.n_bytes - i < 8 ? cell.n_bytes - i : 8;

                memcpy(ret_bytes + i, &word, n);
        }
}

uint64_t pattern_count_wrong(uint64_t tag, struct cell cell, const unsigned char *bytes)
{
        uint64_t n_wrong = 0;

        for (uint64_t i = 0; i < cell.n_bytes; i += 8) {
                uint64_t word = word_at(tag, cell.offset + i);
                uint64_t n = cell.n_bytes - i < 8 ? cell.n_bytes - i : 8;

                if (memcmp(bytes + i, &word, n) == 0)
                        continue;
                for (uint64_t byte = 0; byte < n; byte++)
                        n_wrong += bytes[i + byte] != ((const unsigned char *)&word)[byte];
        }
        return n_wrong;
}
