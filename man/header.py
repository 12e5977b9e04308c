#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of gpumem(3), as Markdown for manual.py, from the public header and the list of errors.

    header.py OUTPUT gpumem.h gpumem-errors.def
    header.py --links FOLDER gpumem.h    (a page for each function, that points at gpumem.3)

Every comment of the header belongs to what is declared below it, up to the next empty line.
"""

import os
import pathlib
import re
import sys
import textwrap

FUNCTION = re.compile(r'^GPUMEM_API[^;]*?\b(gpumem_\w+)\(', re.MULTILINE)
TITLE = re.compile(r'^((?:struct|enum) gpumem_\w+)|^typedef .*?\b(gpumem_\w+)\(|^#define (GPUMEM_\w+)', re.MULTILINE)
REMARK = re.compile(r'/\*(.*?)\*/', re.DOTALL)
NAME = re.compile(r'(?<![`\w])(?:gpumem_\w+(?:\(\))?|GPUMEM_\w+|_[A-Z][A-Z_]+)(?![`\w])')
TOPIC = re.compile(r'^([A-Z][a-z]+|CUDA) +(.*)$')
ERROR = re.compile(r'^GPUMEM_ERROR\((\w+), (\d+), "(.*)"\)$', re.MULTILINE)

# Of the header's lines, which clang-format fills so far.
LINE_MAX = 90
CODE_WIDTH = 66

# The outcomes have a list of their own.
SKIPPED = ('enum gpumem_error', '#define GPUMEM_API')


def functions(header):
    return FUNCTION.findall(header)


def marked(text):
    return NAME.sub(lambda match: f'`{match[0]}`', text)


def ends_paragraph(line, following):
    """The next word had room on the line, and stands on the next one."""
    return line.endswith('.') and len(line) + len(following.partition(' ')[0]) < LINE_MAX


def paragraphs(comment):
    """A comment's lines without its stars."""
    lines = [re.sub(r'^ \* ?', '', line).strip() for line in comment.strip().splitlines()]
    text = ''.join(line + ('\n\n' if ends_paragraph(line, following) else '\n')
                   for line, following in zip(lines, [*lines[1:], '']))
    return marked(re.sub(r'(?<=\. )(?=Errors[:,])', '\n\n', text)).strip().splitlines()


def topics(comment):
    """The header's first comment: its summary is left out, and each topic is a line of a table."""
    rows = []
    for line in comment.splitlines()[2:]:
        text = line.removeprefix(' *')
        topic = TOPIC.match(text[1:]) if text[:2].strip() else None
        if topic:
            rows.append([topic[1], topic[2]])
        elif rows:
            rows[-1][1] += f' {text.strip()}'
        elif text.strip():
            yield text.strip()
    yield from ['', '| topic | rule |', '|---|---|']
    for topic, text in rows:
        yield f'| {topic} | {marked(text.strip())} |'


def title(code):
    match = TITLE.search(code)
    return ', '.join(f'{name}()' for name in functions(code)) or match and match[match.lastindex]


def split_comment(part):
    """What stands before the declaration, and that."""
    if not part.startswith('/*'):
        return '', part
    comment, _, code = part[2:].partition('*/\n')
    return comment, code


def members(code):
    """What is said of each of a struct's or enum's members, before it, behind it or below it."""
    rows, said = [], ''
    for line in re.sub(r'\n +\* ', ' ', code).splitlines()[1:-1]:
        remark = REMARK.search(line)
        declared = REMARK.sub('', line).strip()
        text = remark[1].strip() if remark else ''
        name = re.match(r'.*?(\w+)(?:\[\w+\])?(?: = [^,]*)?[;,]$', declared)
        if name:
            rows.append([name[1], f'{said} {text}'.strip()])
            said = ''
        elif text:
            said = f'{said} {text}'
    return [f'| `{name}` | {marked(text)} |' for name, text in rows if text]


def bare(code):
    """A struct's or enum's declaration without what is said of its members."""
    lines = [line.rstrip() for line in REMARK.sub('', re.sub(r'\n +\* ', ' ', code)).splitlines()]
    return re.sub(r'\b(\w+)\n +(\w+;)', r'\1 \2', '\n'.join(line for line in lines if line)).splitlines()


def refilled(code):
    """Declarations, each in as many lines as a page needs."""
    whole = re.sub(r'\n +', ' ', code.replace('GPUMEM_API ', ''))
    return [text for line in whole.splitlines()
            for text in textwrap.wrap(line, CODE_WIDTH, subsequent_indent=' ' * 8)]


def item(part):
    """A declaration with what is said of it; nothing, if it is none."""
    comment, code = split_comment(part)
    name = title(code)
    if not name or code.startswith(SKIPPED):
        return []
    is_listed = code.startswith(('struct', 'enum'))
    rows = members(code) if is_listed else []
    table = ['', '| member | what |', '|---|---|', *rows] if rows else []
    return ['', f'### {name}', '', '```', *(bare if is_listed else refilled)(code), '```', '', *paragraphs(comment), *table]


def reference(header):
    head, _, rest = header.partition('#define GPUMEM_H\n')
    yield from topics(head.removeprefix('/*').partition('*/')[0])
    yield from ['', '## Types and functions']
    for part in rest.strip().split('\n\n'):
        yield from item(part)


def errors(text):
    yield from ['', '## Errors', '', '| result | number | text |', '|---|---|---|']
    for name, number, sentence in ERROR.findall(text):
        yield f'| `GPUMEM_E_{name}` | {number} | {sentence} |'


def write_links(folder, header):
    folder = pathlib.Path(os.environ.get('MESON_INSTALL_DESTDIR_PREFIX', ''), folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in functions(header):
        (folder / f'{name}.3').write_text('.so man3/gpumem.3\n')


def main():
    if sys.argv[1] == '--links':
        write_links(sys.argv[2], pathlib.Path(sys.argv[3]).read_text())
        return
    header, def_text = (pathlib.Path(path).read_text() for path in sys.argv[2:4])
    pathlib.Path(sys.argv[1]).write_text('\n'.join([*reference(header), *errors(def_text), '']))


if __name__ == '__main__':
    main()
