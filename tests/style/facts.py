#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if docs/driver-facts.md names a test that is not there, or a run that bench/RESULTS.md does not.

    facts.py ROOT

The last cell of each row holds names such as `contract_vmm: new_memory_is_zero`: a case of
tests/contract/test_contract_vmm.c, as only the contract suite runs on both drivers. The two cells before it hold the
verdicts on the emulated driver and on an H200: `same`, or `same, COMMIT` of the run that says so, or `not run`.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

CELL = re.compile(r'\s*(?<!\\)\|\s*')
NAME = re.compile(r'`([^`:]+): ([^`]+)`')
EMULATED = 'same'
REAL = re.compile(r'same, ([0-9a-f]{7})|not run')


def read_rows(document):
    """Yields (line number, cells) of every row of a table, but for its heading."""
    lines = document.splitlines()
    for number, line in enumerate(lines, 1):
        is_heading = number < len(lines) and lines[number].startswith('|---')
        if line.startswith('|') and not line.startswith('|---') and not is_heading:
            yield number, CELL.split(line.strip())[1:-1]


def has_case(path, case):
    """The program has a test of that name."""
    text = path.read_text()
    return re.search(rf'^TEST\({re.escape(case)}[,)]', text, re.MULTILINE) is not None


def check_names(root, rows):
    problems = []
    for number, cells in rows:
        names = NAME.findall(cells[-1])
        if not names or NAME.sub('', cells[-1]).strip(' ,'):
            problems.append(f'line {number}: no list of tests: {cells[-1]}')
        for program, case in names:
            path = root / f'tests/contract/test_{program}.c'
            if not path.exists():
                problems.append(f'line {number}: {program}: no such test program in tests/contract')
            elif not has_case(path, case):
                problems.append(f'line {number}: {case}: not in {path.relative_to(root)}')
    return problems


def check_verdicts(rows, results):
    problems = []
    for number, cells in rows:
        emulated, real = cells[-3:-1]
        if emulated != EMULATED:
            problems.append(f'{number}: emulated: {emulated!r}; make test demands {EMULATED!r}')
        verdict = REAL.fullmatch(real)
        if not verdict:
            problems.append(f'{number}: H200: {real!r} is no verdict')
        elif verdict[1] and verdict[1] not in results:
            problems.append(f'{number}: H200: bench/RESULTS.md knows no run of {verdict[1]}')
    return problems


def main():
    root = pathlib.Path(sys.argv[1])
    rows = list(read_rows((root / 'docs/driver-facts.md').read_text()))
    report = tap.Report()
    report.case('docs/driver-facts.md has rows', [] if rows else ['none'])
    report.case('every fact names tests of the contract suite', check_names(root, rows))
    report.case('every verdict is of a run that is known',
                check_verdicts(rows, (root / 'bench/RESULTS.md').read_text()))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
