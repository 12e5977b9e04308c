/* SPDX-License-Identifier: Apache-2.0 */
/* A library that breaks a rule of this project: it leaves a driver symbol to the loader. The test of
 * symbols.py reads it; no program loads it. */
int cuInit(unsigned int flags);
int wants_driver(void);

__attribute__((visibility("default"))) int wants_driver(void)
{
        return cuInit(0);
}
