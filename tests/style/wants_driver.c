/* SPDX-License-Identifier: Apache-2.0 */
/* A library that does what nothing of this project may: it leaves a symbol of the driver to the
 * loader. The test of the symbols' test looks at it; nothing loads it. */
int cuInit(unsigned int flags);
int wants_driver(void);

__attribute__((visibility("default"))) int wants_driver(void)
{
        return cuInit(0);
}
