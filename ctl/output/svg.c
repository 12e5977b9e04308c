/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output/svg.h"

/* The picture brings its own ground, so that the text can be read wherever it is put. */
static const char common_style[] =
        "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;"
        "fill:#1f2328}\n"
        ".head{font-size:16px;font-weight:600}\n"
        ".title{font-weight:600}\n"
        ".hint{font-size:11px;fill:#59636e}\n"
        ".ground{fill:#ffffff;stroke:#d1d9e0}\n"
        "@media (prefers-color-scheme:dark){\n"
        "text{fill:#f0f6fc}\n"
        ".hint{fill:#9198a1}\n"
        ".ground{fill:#0d1117;stroke:#3d444d}\n"
        "}\n";

void svg_begin(const char *title, unsigned width, unsigned height, const char *style, FILE *file)
{
        (void)fprintf(file,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" "
                      "width=\"%u\" height=\"%u\" role=\"img\">\n<title>",
                      width, height, width, height);
        svg_escape(title, file);
        (void)fprintf(file, "</title>\n<style>\n%s%s</style>\n", common_style, style);
        (void)fprintf(file,
                      "<rect x=\"0.5\" y=\"0.5\" width=\"%u\" height=\"%u\" rx=\"8\" "
                      "class=\"ground\"/>\n",
                      width - 1, height - 1);
}

void svg_end(FILE *file)
{
        (void)fputs("</svg>\n", file);
}

void svg_escape(const char *text, FILE *file)
{
        for (; *text; text++) {
                switch (*text) {
                case '&':
                        (void)fputs("&amp;", file);
                        break;
                case '<':
                        (void)fputs("&lt;", file);
                        break;
                case '>':
                        (void)fputs("&gt;", file);
                        break;
                case '"':
                        (void)fputs("&quot;", file);
                        break;
                default:
                        (void)fputc(*text, file);
                }
        }
}

void svg_text(double x, double y, const char *class, const char *anchor, const char *text,
              FILE *file)
{
        (void)fprintf(file, "<text x=\"%g\" y=\"%g\" class=\"%s\" text-anchor=\"%s\">", x, y, class,
                      anchor);
        svg_escape(text, file);
        (void)fputs("</text>\n", file);
}
