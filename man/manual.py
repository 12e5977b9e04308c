#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a page for man(1) of Markdown as this project writes it.

    manual.py OUTPUT PAGE VERSION SUMMARY [WORD=TEXT]... FILE...    (PAGE: gpumemd.8)

SUMMARY `-` is that of the first heading, "# NAME - SUMMARY".

The files are one text: headings, paragraphs, lists, tables and blocks of code. Its first heading is left out,
and what stands before the next one is the DESCRIPTION, unless the page has a SYNOPSIS of its own first. A table
of two columns becomes a list of what its first column has. Two comments say what else there is to be:

    <!-- include FILE -->              the file, as a block of code, without the line of its licence
    <!-- include FILE "## Heading" --> what stands below that heading, up to the next such one

FILE is relative to the file that names it. `@WORD@` becomes its TEXT.
"""

import pathlib
import re
import sys
import textwrap

WIDTH = 78
# Of all columns but the last; a wider table becomes a list.
COLUMNS_MAX = 48
TABLE_WIDTH = 72
INCLUDE = re.compile(r'^<!-- include (\S+)(?: "(#+) (.*)")? -->$')
LICENCE = re.compile(r'^(/\*|//|#) SPDX-License-Identifier')
COMMENT = re.compile(r'<!--.*?-->', re.DOTALL)
HEADING = re.compile(r'^(#+) +(.*)$')
CELL = re.compile(r'(?<!\\)\|')
INLINE = re.compile(r'`([^`]+)`|\*\*(.+?)\*\*|!?\[([^]]*)\]\([^)]*\)')
ESCAPES = {'\\': '\\e', '-': '\\-', "'": '\\(aq', '`': '\\(ga', '^': '\\(ha', '~': '\\(ti'}


def section_of(text, marks, title):
    """The lines below a heading, up to the next one of its rank or above."""
    lines, found = [], False
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading and found and len(heading[1]) <= len(marks):
            break
        if found:
            lines.append(line)
        found = found or line == f'{marks} {title}'
    if not found:
        raise SystemExit(f'manual.py: there is no "{marks} {title}"')
    return lines


def read(path):
    """A file's lines, with those of what it includes."""
    lines = []
    for line in path.read_text().splitlines():
        include = INCLUDE.match(line)
        if not include:
            lines.append(line)
            continue
        text = (path.parent / include[1]).read_text()
        lines += (section_of(text, include[2], include[3]) if include[2]
                  else ['```', *(line for line in text.splitlines() if not LICENCE.match(line)), '```'])
    return lines


def literal(text):
    """As it stands, every character of it."""
    return ''.join(ESCAPES.get(character, character) for character in text)


def cell_of(text):
    """In a table a bar is written so that it ends no cell."""
    return text.replace('\\|', '|')


def plain(text):
    return text.replace('\\|', '|').replace('\\', '\\e').replace('`', '\\(ga')


def inline(text):
    """A paragraph's words, with what is marked in bold."""
    parts, at = [], 0
    for match in INLINE.finditer(text):
        parts.append(plain(text[at:match.start()]))
        if match[1]:
            parts.append(f'\\fB{literal(match[1])}\\fR')
        elif match[2]:
            parts.append(f'\\fB{plain(match[2].replace("`", ""))}\\fR')
        else:
            parts.append(plain(match[3]))
        at = match.end()
    return ''.join([*parts, plain(text[at:])])


def guarded(line):
    """Not taken for a request."""
    return f'\\&{line}' if line[:1] in ('.', "'") else line


def fill(text):
    return [guarded(line) for line in textwrap.wrap(inline(text), WIDTH, break_long_words=False,
                                                    break_on_hyphens=False)]


def shown(text):
    """Without its marks."""
    return INLINE.sub(lambda match: match[1] or match[2] or match[3], text).replace('\\|', '|')


def code(lines):
    return ['.PP', '.RS 4', '.nf', *(guarded(literal(line)) for line in lines), '.fi', '.RE']


def cells(row):
    return [cell_of(cell.strip()) for cell in CELL.split(row.strip())[1:-1]]


def meaning_first(titles, row):
    """What a thing means needs no title, and is what one looks for."""
    return sorted(zip(titles, row), key=lambda column: column[0] != 'meaning')


def titled(title, cell):
    return cell if title == 'meaning' else f'{title}: {cell}'


def table(rows):
    head, body = cells(rows[0]), [cells(row) for row in rows[2:]]
    if len(head) == 2:
        return [line for tag, text in body
                for line in ('.TP', guarded(inline(tag)) or '\\&', *(fill(text) or ['\\&']))]
    if sum(max(len(row[i]) for row in [head, *body]) for i in range(len(head) - 1)) > COLUMNS_MAX:
        return [line for row in body for line in ('.TP', guarded(inline(row[0])), *fill('; '.join(
            titled(title, cell) for title, cell in meaning_first(head[1:], row[1:]) if cell)))]
    return columns([head, *body])


def columns(rows):
    """Laid out here, the last column filled: so nothing else has to be."""
    rows = [[shown(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    indent = sum(widths) + 3 * len(widths)
    lines = []
    for row in rows:
        texts = textwrap.wrap(row[-1], TABLE_WIDTH - indent, break_long_words=False,
                              break_on_hyphens=False) or ['']
        first = ''.join(f'{cell:{width}}   ' for cell, width in zip(row, widths))
        lines += [f'{before}{text}'.rstrip()
                  for before, text in zip([first, *[' ' * indent] * len(texts)], texts)]
    return ['.PP', '.nf', f'\\fB{literal(lines[0])}\\fR',
            *(guarded(literal(line)) for line in lines[1:]), '.fi']


def bullets(lines):
    items = []
    for line in lines:
        if line.startswith('- '):
            items.append(line[2:])
        else:
            items[-1] += f' {line.strip()}'
    return [line for item in items for line in ('.IP \\(bu 2', *fill(item))]


def heading(rank, title):
    return [f'.SH {inline(title.upper())}'] if rank < 3 else [f'.SS {inline(title)}']


class Blocks:
    """The text's blocks, one after another, as requests and text."""

    def __init__(self, lines):
        self.lines, self.at = lines, 0

    def take(self, belongs):
        first = self.at
        while self.at < len(self.lines) and belongs(self.lines[self.at]):
            self.at += 1
        return self.lines[first:self.at]

    def block(self):
        line = self.lines[self.at]
        if line.startswith('```'):
            self.at += 1
            lines = self.take(lambda line: not line.startswith('```'))
            self.at += 1
            return code(lines)
        if line.startswith('|'):
            return table(self.take(lambda line: line.startswith('|')))
        if line.startswith('- '):
            return bullets(self.take(lambda line: line.startswith(('- ', '  '))))
        if match := HEADING.match(line):
            self.at += 1
            return heading(len(match[1]), match[2])
        lines = self.take(lambda line: line and not line.startswith(('```', '|', '- ', '#')))
        return ['.PP', *fill(' '.join(lines))]

    def all(self):
        requests = []
        while self.at < len(self.lines):
            if self.lines[self.at].strip():
                requests += self.block()
            else:
                self.at += 1
        return requests


def without_idle(requests):
    """A paragraph begins by itself after a heading."""
    return [line for before, line in zip(['', *requests], requests)
            if line != '.PP' or not before.startswith(('.SH', '.SS'))]


def page(name, section, version, summary, lines):
    text = COMMENT.sub('', '\n'.join(lines)).strip()
    first, _, text = text.partition('\n')
    if summary == '-':
        summary = first.partition(' - ')[2]
    if not text.lstrip().startswith('## '):
        text = f'## Description\n{text}'
    body = Blocks(text.splitlines()).all()
    requests = [f'.TH {name.upper()} {section} "2026-11-22" "gpumemd {version}" "gpumemd"',
                '.ad l', '.nh', '.SH NAME', f'{literal(name)} \\- {inline(summary)}', *body]
    return '\n'.join([*without_idle(requests), ''])


def with_words(line, words):
    for word, text in words.items():
        line = line.replace(f'@{word}@', text)
    return line


def main():
    output, title, version, summary = sys.argv[1:5]
    name, _, section = title.rpartition('.')
    words = dict(word.split('=', 1) for word in sys.argv[5:] if '=' in word)
    paths = [pathlib.Path(word) for word in sys.argv[5:] if '=' not in word]
    lines = [with_words(line, words) for path in paths for line in [*read(path), '']]
    pathlib.Path(output).write_text(page(name, section, version, summary, lines))


if __name__ == '__main__':
    main()
