/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/attack/table.h"

#include <stdarg.h>
#include <stdio.h>

static unsigned n_of[NO_VERDICT + 1];

static void print(const char *attack, const char *what, const char *measured, const char *wanted,
                  const char *verdict)
{
        printf("%-15s %-16s %-50s %-20s %s\n", attack, what, measured, wanted, verdict);
        (void)fflush(stdout);
}

void table_columns(void)
{
        print("attack", "figure", "measured", "wanted", "");
}

void table_row(const char *attack, const char *what, enum verdict verdict, const char *wanted,
               const char *measured, ...)
{
        static const char *const words[] = {
                [HELD] = "held", [MISSED] = "MISSED", [NO_VERDICT] = ""};
        char text[128];
        va_list arguments;

        va_start(arguments, measured);
        (void)vsnprintf(text, sizeof(text), measured, arguments);
        va_end(arguments);
        n_of[verdict]++;
        print(attack, what, text, wanted, words[verdict]);
}

unsigned table_n_missed(void)
{
        return n_of[MISSED];
}
