/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/config_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

#define SENTENCE_MAX 1024
#define VALUE_MAX    64

/* Keys and texts of a file may contain anything, and are printed to terminals and logs. Replaces control
 * characters, also those that are two bytes of UTF-8. */
static void make_printable(char *text)
{
        for (unsigned char *byte = (unsigned char *)text; *byte; byte++) {
                if (byte[0] == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0)
                        *byte++ = '?';
                else if (*byte >= 0x20 && *byte != 0x7f)
                        continue;
                *byte = '?';
        }
}

void reader_complain(struct reader *reader, const char *path, const char *format, ...)
{
        char sentence[SENTENCE_MAX], what[SENTENCE_MAX / 2];
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(what, sizeof(what), format, arguments);
        va_end(arguments);
        (void)snprintf(sentence, sizeof(sentence), "%s: %s%s%s", reader->file, path,
                       *path ? ": " : "", what);
        make_printable(sentence);
        reader->n_faults++;
        reader->print(reader->argument, sentence);
}

/* Prints the value as JSON, cut to the length of a line. */
static void quote(const json_t *value, char text[static VALUE_MAX])
{
        char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
        bool too_long = dump && strlen(dump) >= VALUE_MAX;

        (void)snprintf(text, VALUE_MAX, "%.*s%s", too_long ? VALUE_MAX - 4 : VALUE_MAX - 1,
                       dump ? dump : "this", too_long ? "..." : "");
        free(dump);
}

static void refuse(struct reader *reader, const char *path, const json_t *value, const char *what,
                   const char *prefix, const char *allowed)
{
        char text[VALUE_MAX];

        quote(value, text);
        reader_complain(reader, path, "invalid %s %s (expected %s%s)", what, text, prefix, allowed);
}

void reader_refuse(struct reader *reader, const char *path, const json_t *value, const char *what,
                   const char *allowed)
{
        refuse(reader, path, value, what, "", allowed);
}

void key_path(char path[static KEY_PATH_MAX], const char *up, const char *key)
{
        (void)snprintf(path, KEY_PATH_MAX, "%s%s%s", up, *up ? "." : "", key);
}

void index_path(char path[static KEY_PATH_MAX], const char *up, size_t index)
{
        (void)snprintf(path, KEY_PATH_MAX, "%s[%zu]", up, index);
}

static bool is_among(const char *key, const char *const *keys)
{
        for (; *keys; keys++) {
                if (strcmp(*keys, key) == 0)
                        return true;
        }
        return false;
}

static void list_keys(const char *const *keys, char *text, size_t n_text)
{
        size_t length = 0;

        *text = '\0';
        for (; *keys && length < n_text; keys++)
                length += (size_t)snprintf(text + length, n_text - length, "%s\"%s\"",
                                           length ? ", " : "", *keys);
}

bool reader_object(struct reader *reader, const char *path, const json_t *value,
                   const char *const *keys)
{
        char allowed[256], unknown[KEY_PATH_MAX];
        const char *key;
        json_t *member;

        list_keys(keys, allowed, sizeof(allowed));
        if (!json_is_object(value)) {
                refuse(reader, path, value, "value", "an object with ", allowed);
                return false;
        }
        json_object_foreach((json_t *)value, key, member)
        {
                if (is_among(key, keys))
                        continue;
                key_path(unknown, path, key);
                reader_complain(reader, unknown, "unknown key (expected %s)", allowed);
        }
        return true;
}

bool reader_array(struct reader *reader, const char *path, const json_t *value)
{
        if (json_is_array(value))
                return true;
        reader_refuse(reader, path, value, "list", "objects in square brackets");
        return false;
}

bool reader_text(struct reader *reader, const char *path, const json_t *json, const char **value)
{
        if (!json_is_string(json) || !*json_string_value(json)) {
                reader_refuse(reader, path, json, "text", "a non-empty text in double quotes");
                return false;
        }
        *value = json_string_value(json);
        return true;
}

bool reader_size(struct reader *reader, const char *path, const json_t *json, uint64_t least,
                 const char *allowed, uint64_t *value)
{
        uint64_t n_bytes = 0;
        bool is_size = false;

        if (json_is_integer(json) && json_integer_value(json) >= 0) {
                n_bytes = (uint64_t)json_integer_value(json);
                is_size = true;
        } else if (json_is_string(json)) {
                is_size = size_parse(json_string_value(json), &n_bytes) == 0;
        }
        /* The largest numbers have a special meaning, such as "none". */
        if (!is_size || n_bytes < least || n_bytes > UINT64_MAX / 2) {
                reader_refuse(reader, path, json, "size", allowed);
                return false;
        }
        *value = n_bytes;
        return true;
}

bool reader_fraction(struct reader *reader, const char *path, const json_t *json, double *value)
{
        double fraction = json_is_number(json) ? json_number_value(json) : 0;

        if (!(fraction > 0 && fraction <= 1)) {
                reader_refuse(reader, path, json, "fraction", "above 0, at most 1");
                return false;
        }
        *value = fraction;
        return true;
}
