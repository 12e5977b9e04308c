#!/usr/bin/env python3
"""Fails if docs/driver-facts.md names a test that is not there, or a run that bench/RESULTS.md does not.

    facts.py ROOT

The last cell of each row holds names of contract tests, as testing.py reads them; the two before it the
verdicts on the emulated driver and on an H200: `same`, or `same, COMMIT` of the run that says so, or `not run`.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap
import testing

EMULATED = 'same'
REAL = re.compile(r'same, ([0-9a-f]{7})|not run')


def read_verdicts(document):
    """Yields (line number, verdict on the emulated driver, verdict on an H200) of every row."""
    lines = document.splitlines()
    for number, _ in testing.read_rows(document):
        cells = testing.CELL.split(lines[number - 1].strip())
        yield number, *cells[-4:-2]


def check_verdicts(document, results):
    problems = []
    for number, emulated, real in read_verdicts(document):
        if emulated != EMULATED:
            problems.append(f'{number}: emulated: {emulated!r}; make test demands {EMULATED!r}')
        verdict = REAL.fullmatch(real)
        if not verdict:
            problems.append(f'{number}: H200: {real!r} is no verdict')
        elif verdict[1] and verdict[1] not in results:
            problems.append(f'{number}: H200: bench/RESULTS.md knows no run of {verdict[1]}')
    return problems


def check_programs(root, rows):
    """Only programs of the contract suite run on both."""
    return [f'{number}: {program} is not of tests/contract'
            for number, cell in rows for program, _ in testing.NAME.findall(cell)
            if not (root / f'tests/contract/test_{program}.c').exists()]


def main():
    root = pathlib.Path(sys.argv[1])
    document = (root / 'docs/driver-facts.md').read_text()
    rows = list(testing.read_rows(document))
    report = tap.Report()
    report.case('docs/driver-facts.md has rows', [] if rows else ['none'])
    report.case('every fact names tests that are there', testing.check_rows(root, rows))
    report.case('these are of the contract suite', check_programs(root, rows))
    report.case('every verdict is of a run that is known',
                check_verdicts(document, (root / 'bench/RESULTS.md').read_text()))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
