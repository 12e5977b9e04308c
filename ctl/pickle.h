/* A value of JSON as Python's pickle, protocol 2: dict, list, str, int, float, bool and None, by the few
 * opcodes that every reader has. Pure. */
#pragma once

#include <stdio.h>

struct json_t;

/* The stream's error says whether it could be written. */
void pickle_write(const struct json_t *value, FILE *file);
