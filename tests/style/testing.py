#!/usr/bin/env python3
"""Fails if TESTING.md names a test that is not there, or claims something that no test is named for, and if
a test program is not built.

    testing.py ROOT

The last cell of each row holds names such as `frames: hello_comes_once`: a case of test_frames.c or
frames.sh, somewhere below tests/.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

CELL = re.compile(r'\s*(?<!\\)\|\s*')
NAME = re.compile(r'`([^`:]+): ([^`]+)`')


def read_rows(document):
    """Yields (line number, last cell) of every row of a table, but for its heading."""
    lines = document.splitlines()
    for number, line in enumerate(lines, 1):
        is_heading = number < len(lines) and lines[number].startswith('|---')
        if line.startswith('|') and not line.startswith('|---') and not is_heading:
            yield number, CELL.split(line.strip())[-2]


def find_program(root, program):
    found = [*root.glob(f'tests/**/test_{program}.c'), *root.glob(f'tests/**/{program}.sh')]
    return found[0] if len(found) == 1 else None


def has_case(path, case):
    text = path.read_text()
    if path.suffix == '.sh':
        return f'ok "{case}"' in text
    # Defined, and handed to the suite.
    return f'START_TEST({case})' in text and len(re.findall(rf'\b{re.escape(case)}\b', text)) > 1


def check_rows(root, rows):
    problems = []
    for number, cell in rows:
        names = NAME.findall(cell)
        if not names or NAME.sub('', cell).strip(' ,'):
            problems.append(f'line {number}: no list of tests: {cell}')
        for program, case in names:
            path = find_program(root, program)
            if path is None:
                problems.append(f'line {number}: {program}: no such test program, or several')
            elif not has_case(path, case):
                problems.append(f'line {number}: {case}: not in {path.relative_to(root)}')
    return problems


def check_built(root):
    """A merge may lose the line that has a test built, and nothing fails then."""
    problems = []
    for path in sorted(root.glob('tests/*/test_*.c')):
        folder, name = path.parent.name, path.stem.removeprefix('test_')
        short = name.removeprefix(f'{folder}_').removesuffix(f'_{folder}')
        built = set(re.findall(r"'(\w+)(?:\.c)?'", (path.parent / 'meson.build').read_text()))
        if not built & {path.stem, name, short}:
            problems.append(f'{path.relative_to(root)}: its meson.build does not name it')
    return problems


def main():
    root = pathlib.Path(sys.argv[1])
    rows = list(read_rows((root / 'TESTING.md').read_text()))
    report = tap.Report()
    report.case('TESTING.md has rows', [] if rows else ['none'])
    report.case('every row names tests that are there', check_rows(root, rows))
    report.case('every test program is built', check_built(root))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
