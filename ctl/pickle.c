#include "ctl/pickle.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

/* Opcodes, by their names in pickletools. */
#define PROTO      "\x80\x02"
#define EMPTY_DICT '}'
#define EMPTY_LIST ']'
#define MARK       '('
#define SETITEMS   'u'
#define APPEND     'a'
#define BINUNICODE 'X'
#define BININT1    'K'
#define BININT2    'M'
#define BININT     'J'
#define LONG1      0x8a
#define BINFLOAT   'G'
#define NEWTRUE    0x88
#define NEWFALSE   0x89
#define NONE       'N'
#define STOP       '.'

static void put(int byte, FILE *file)
{
        (void)fputc(byte, file);
}

static void put_little(uint64_t value, unsigned n_bytes, FILE *file)
{
        for (unsigned i = 0; i < n_bytes; i++)
                put((int)(value >> (8 * i) & 0xff), file);
}

static void put_text(const char *text, size_t n_bytes, FILE *file)
{
        put(BINUNICODE, file);
        put_little(n_bytes, 4, file);
        (void)fwrite(text, 1, n_bytes, file);
}

static void put_integer(int64_t value, FILE *file)
{
        if (value >= 0 && value <= UINT8_MAX) {
                put(BININT1, file);
                put_little((uint64_t)value, 1, file);
        } else if (value >= 0 && value <= UINT16_MAX) {
                put(BININT2, file);
                put_little((uint64_t)value, 2, file);
        } else if (value >= INT32_MIN && value <= INT32_MAX) {
                put(BININT, file);
                put_little((uint64_t)value, 4, file);
        } else {
                put(LONG1, file);
                put(8, file);
                put_little((uint64_t)value, 8, file);
        }
}

/* Its bytes stand the other way round. */
static void put_real(double value, FILE *file)
{
        uint64_t bits;

        memcpy(&bits, &value, sizeof(bits));
        put(BINFLOAT, file);
        for (unsigned i = 8; i-- > 0;)
                put((int)(bits >> (8 * i) & 0xff), file);
}

/* Only what this program has made is written, which is a few levels deep.
 * NOLINTBEGIN(misc-no-recursion) */
static void put_value(const json_t *value, FILE *file);

static void put_object(const json_t *object, FILE *file)
{
        const char *key;
        json_t *value;

        put(EMPTY_DICT, file);
        put(MARK, file);
        json_object_foreach((json_t *)object, key, value)
        {
                put_text(key, strlen(key), file);
                put_value(value, file);
        }
        put(SETITEMS, file);
}

/* One by one: readers that take all at once have been seen to take no more than some ten thousand. */
static void put_array(const json_t *array, FILE *file)
{
        const json_t *value;
        size_t i;

        put(EMPTY_LIST, file);
        json_array_foreach(array, i, value)
        {
                put_value(value, file);
                put(APPEND, file);
        }
}

static void put_value(const json_t *value, FILE *file)
{
        switch (json_typeof(value)) {
        case JSON_OBJECT:
                put_object(value, file);
                return;
        case JSON_ARRAY:
                put_array(value, file);
                return;
        case JSON_STRING:
                put_text(json_string_value(value), json_string_length(value), file);
                return;
        case JSON_INTEGER:
                put_integer(json_integer_value(value), file);
                return;
        case JSON_REAL:
                put_real(json_real_value(value), file);
                return;
        case JSON_TRUE:
                put(NEWTRUE, file);
                return;
        case JSON_FALSE:
                put(NEWFALSE, file);
                return;
        case JSON_NULL:
                put(NONE, file);
                return;
        }
}

/* NOLINTEND(misc-no-recursion) */

void pickle_write(const json_t *value, FILE *file)
{
        (void)fputs(PROTO, file);
        put_value(value, file);
        put(STOP, file);
}
