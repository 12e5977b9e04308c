/* A token's text form. */
#include <string.h>

#include "gpumem.h"

const char *gpumem_token_format(const struct gpumem_token *token, char *text)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < GPUMEM_TOKEN_BYTES; i++) {
                text[2 * i] = digits[token->bytes[i] >> 4];
                text[2 * i + 1] = digits[token->bytes[i] & 15];
        }
        text[GPUMEM_TOKEN_TEXT_BYTES - 1] = '\0';
        return text;
}

static int digit_value(char digit)
{
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (digit >= 'a' && digit <= 'f')
                return digit - 'a' + 10;
        if (digit >= 'A' && digit <= 'F')
                return digit - 'A' + 10;
        return -1;
}

int gpumem_token_parse(const char *text, struct gpumem_token *ret_token)
{
        struct gpumem_token token;

        if (strnlen(text, GPUMEM_TOKEN_TEXT_BYTES) != GPUMEM_TOKEN_TEXT_BYTES - 1)
                return GPUMEM_E_BAD_REQUEST;
        for (size_t i = 0; i < GPUMEM_TOKEN_BYTES; i++) {
                int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return GPUMEM_E_BAD_REQUEST;
                token.bytes[i] = (uint8_t)(high << 4 | low);
        }
        *ret_token = token;
        return 0;
}
