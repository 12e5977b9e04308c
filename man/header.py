#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference of a page of section 3, as Markdown for manual.py, from the public headers and the list of errors.

    header.py OUTPUT PAGE gpumem-errors.def HEADER...    (PAGE: gpumem, the overview, or a group such as gpumem-share)
    header.py --links FOLDER HEADER...                   (a page for each function, that points at its group's)

Every comment of a header belongs to what is declared below it, up to the next empty line. A comment that begins with
"gpumem-NAME(3): SUMMARY" begins a group: its page describes all that follows, up to the next group. The first comment
of gpumem.h, and what stands before the first group, are the overview's.
"""

import os
import pathlib
import re
import sys
import textwrap

GROUP = re.compile(r'^ ?(gpumem-\w+)\(3\): (.*)\n')
FUNCTION = re.compile(r'^GPUMEM_API[^;]*?\b(gpumem_\w+)\(', re.MULTILINE)
TITLE = re.compile(r'^((?:struct|enum) gpumem_\w+)|^typedef .*?\b(gpumem_\w+)\(|^#define (GPUMEM_\w+)', re.MULTILINE)
REMARK = re.compile(r'/\*(.*?)\*/', re.DOTALL)
NAME = re.compile(r'(?<![`\w])(?:gpumem_\w+(?:\(\))?|GPUMEM_\w+|_[A-Z][A-Z_]+)(?![`\w])')
TOPIC = re.compile(r'^([A-Z][a-z]+|CUDA) +(.*)$')
ERROR = re.compile(r'^GPUMEM_ERROR\((\w+), (\d+), "(.*)"\)$', re.MULTILINE)

OVERVIEW = 'gpumem'
# Of the headers' comments, whose paragraphs are filled up to it.
LINE_MAX = 120
CODE_WIDTH = 66

# The outcomes have a list of their own.
SKIPPED = ('enum gpumem_error', '#define GPUMEM_API')


def functions(text):
    return FUNCTION.findall(text)


def marked(text):
    return NAME.sub(lambda match: f'`{match[0]}`', text)


def ends_paragraph(line, following):
    """The next word had room on the line, and stands on the next one."""
    return line.endswith('.') and len(f' * {line} ') + len(following.partition(' ')[0]) <= LINE_MAX


def prose(lines):
    lines = [line.strip() for line in lines]
    text = ''.join(line + ('\n\n' if ends_paragraph(line, following) else '\n')
                   for line, following in zip(lines, [*lines[1:], '']))
    return marked(re.sub(r'(?<=\. )(?=Errors[:,])', '\n\n', text)).strip().splitlines()


def paragraphs(comment):
    """A comment's lines without its stars. Lines that are indented are code."""
    lines = [re.sub(r'^ (\* ?)?', '', line).rstrip() for line in comment.strip('\n').splitlines()]
    result, first = [], 0
    for at in range(len(lines) + 1):
        is_end = at == len(lines)
        if is_end or lines[at].startswith('    ') != lines[first].startswith('    '):
            part = lines[first:at]
            is_code = part and part[0].startswith('    ')
            result += ['', *(['```', *textwrap.dedent('\n'.join(part)).splitlines(), '```'] if is_code else prose(part))]
            first = at
    return result[1:]


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
    comment, _, code = part[2:].partition('*/')
    return comment, code.removeprefix('\n')


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
    """Declarations, each in as many lines as a page needs; a line ends with an argument."""
    whole = re.sub(r'\n +', ' ', code.replace('GPUMEM_API ', ''))
    return [text.replace('\0', ' ') for line in whole.splitlines()
            for text in textwrap.wrap(re.sub(r'(?<!,) ', '\0', line), CODE_WIDTH, subsequent_indent=' ' * 8)]


def item(part):
    """A declaration with what is said of it; nothing, if it is none."""
    comment, code = split_comment(part)
    name = title(code)
    if not name or code.startswith(SKIPPED):
        return []
    is_listed = code.startswith(('struct', 'enum'))
    as_it_is = bare if is_listed else str.splitlines if '{' in code else refilled
    rows = members(code) if is_listed else []
    table = ['', '| member | what |', '|---|---|', *rows] if rows else []
    return ['', f'### {name}', '', '```', *as_it_is(code), '```', '', *paragraphs(comment), *table]


class Group:
    """A page's part of a header."""

    def __init__(self, name, summary, comment, include):
        self.name, self.summary, self.comment, self.include = name, summary, comment, include
        self.parts = []

    def functions(self):
        return [name for part in self.parts for name in functions(part)]

    def reference(self):
        return [line for part in self.parts for line in item(part)]

    def outcomes(self, text):
        """The errors that it names."""
        said = set(re.findall(r'\b(?:GPUMEM_E)?_([A-Z_]+)\b', '\n'.join([self.comment, *self.parts])))
        return [error for error in ERROR.findall(text) if error[0] in said]


def groups_of(paths):
    """The groups of the headers; the first is the overview's."""
    groups = []
    for path in paths:
        head, _, rest = path.read_text().partition(f'#define {path.stem.upper().replace("-", "_")}_H\n')
        if not groups:
            groups = [Group(OVERVIEW, '', re.findall(r'/\*(.*?)\*/', head, re.DOTALL)[-1], path.name)]
        for part in rest.strip().split('\n\n'):
            comment, _ = split_comment(part)
            if match := GROUP.match(comment):
                groups.append(Group(match[1], match[2], comment[match.end():].removeprefix(' *\n'), path.name))
            else:
                groups[-1].parts.append(part)
    return groups


def errors(rows):
    yield from ['', '## Errors', '', '| result | number | text |', '|---|---|---|']
    for name, number, sentence in rows:
        yield f'| `GPUMEM_E_{name}` | {number} | {sentence} |'


def synopsis(include):
    return ['## Synopsis', '', '```', f'#include <{include}>', '', 'cc ... $(pkg-config --cflags --libs gpumem-client)', '```', '']


def overview(groups, error_text):
    first, *others = groups
    yield from [f'# {OVERVIEW} - GPU and pinned host memory, managed by one daemon per node', '']
    yield from [*synopsis(first.include), '## Description', '', *topics(first.comment)]
    yield from ['', '## Pages', '', '| page | what |', '|---|---|']
    for group in others:
        names = ', '.join(f'`{name}`' for name in group.functions())
        yield f'| **{group.name}(3)** | {group.summary}: {names} |'
    yield '| **gpumem-cpp(3)** | `gpumem.hpp` and `gpumem-resources.hpp`, for C++ |'
    yield from ['', '## Types', *first.reference()]
    yield from errors(ERROR.findall(error_text))


def group_page(group, error_text):
    yield from [f'# {group.name} - {group.summary}', '']
    yield from [*synopsis(group.include), '## Description', '', *paragraphs(group.comment)]
    yield from ['', '## Types and functions', *group.reference()]
    yield from errors(group.outcomes(error_text))


def write_links(folder, groups):
    folder = pathlib.Path(os.environ.get('MESON_INSTALL_DESTDIR_PREFIX', ''), folder)
    folder.mkdir(parents=True, exist_ok=True)
    for group in groups:
        for name in group.functions():
            (folder / f'{name}.3').write_text(f'.so man3/{group.name}.3\n')


def main():
    if sys.argv[1] == '--links':
        write_links(sys.argv[2], groups_of([pathlib.Path(path) for path in sys.argv[3:]]))
        return
    output, name = sys.argv[1:3]
    error_path, *paths = (pathlib.Path(path) for path in sys.argv[3:])
    groups = groups_of(paths)
    error_text = error_path.read_text()
    [group] = [group for group in groups if group.name == name]
    lines = overview(groups, error_text) if group is groups[0] else group_page(group, error_text)
    pathlib.Path(output).write_text('\n'.join([*lines, '']))


if __name__ == '__main__':
    main()
