/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics/lines.h"

#include <inttypes.h>
#include <stdarg.h>

char lines_printable(char byte)
{
        return (byte >= ' ' && byte <= '~') || byte == '\n' ? byte : METRIC_UNPRINTABLE;
}

/* Quotes need no escape in HELP of the older format, which does not know one. */
static void put_escaped(const struct lines *lines, const char *text, bool with_quotes)
{
        for (; *text; text++) {
                char byte = lines_printable(*text);

                if (byte == '\\' || (byte == '"' && with_quotes))
                        (void)fprintf(lines->file, "\\%c", byte);
                else if (byte == '\n')
                        (void)fputs("\\n", lines->file);
                else
                        (void)fputc(byte, lines->file);
        }
}

static const char *type_name(enum metric_form form)
{
        switch (form) {
        case METRIC_COUNTER:
                return "counter";
        case METRIC_GAUGE:
        case METRIC_STATES:
                break;
        }
        return "gauge";
}

static const char *sample_suffix(const struct lines *lines)
{
        return lines->form == METRIC_COUNTER ? "_total" : "";
}

void lines_family(struct lines *lines, enum metric_form form, const char *unit, const char *text,
                  const char *name_format, ...)
{
        const char *suffix;
        va_list arguments;

        va_start(arguments, name_format);
        (void)vsnprintf(lines->name, sizeof(lines->name), name_format, arguments);
        va_end(arguments);
        lines->form = form;
        suffix = lines->format == METRICS_TEXT ? sample_suffix(lines) : "";
        (void)fprintf(lines->file, "# HELP %s%s ", lines->name, suffix);
        put_escaped(lines, text, lines->format == METRICS_OPENMETRICS);
        (void)fprintf(lines->file, "\n# TYPE %s%s %s\n", lines->name, suffix, type_name(form));
        if (lines->format == METRICS_OPENMETRICS && *unit)
                (void)fprintf(lines->file, "# UNIT %s %s\n", lines->name, unit);
}

void lines_sample(struct lines *lines)
{
        (void)fprintf(lines->file, "%s%s", lines->name, sample_suffix(lines));
        lines->has_labels = false;
}

void lines_label(struct lines *lines, const char *key, const char *value)
{
        (void)fprintf(lines->file, "%c%s=\"", lines->has_labels ? ',' : '{', key);
        put_escaped(lines, value, true);
        (void)fputc('"', lines->file);
        lines->has_labels = true;
}

void lines_label_number(struct lines *lines, const char *key, uint64_t value)
{
        char text[24];

        (void)snprintf(text, sizeof(text), "%" PRIu64, value);
        lines_label(lines, key, text);
}

static void end_labels(const struct lines *lines)
{
        if (lines->has_labels)
                (void)fputc('}', lines->file);
}

void lines_value(struct lines *lines, uint64_t value)
{
        end_labels(lines);
        (void)fprintf(lines->file, " %" PRIu64 "\n", value);
}

void lines_value_seconds(struct lines *lines, uint64_t value, unsigned n_digits)
{
        uint64_t second = 1;

        for (unsigned i = 0; i < n_digits; i++)
                second *= 10;
        end_labels(lines);
        (void)fprintf(lines->file, " %" PRIu64 ".%0*" PRIu64 "\n", value / second, (int)n_digits,
                      value % second);
}

void lines_end(struct lines *lines)
{
        (void)fputs("# EOF\n", lines->file);
}
