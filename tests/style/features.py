#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of docs/pools.md to what it names: each row has calls and tests, and all of them exist.

    features.py ROOT
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

TABLE = 'docs/pools.md'
NAME = re.compile(r'`([^`]+)`')


def rows(text):
    """Feature, calls and tests of each row."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if line.startswith('| ') and len(cells) == 6 and cells[0] != 'feature':
            yield cells[0], NAME.findall(cells[4]), NAME.findall(cells[5])


def has_call(root, call):
    if call.startswith('gpumem_'):
        return any(re.search(rf'^GPUMEM_API [^;]*?\b{call}\(', path.read_text(), re.MULTILINE)
                   for path in root.glob('include/*.h'))
    if call.startswith('gpumem.'):
        return f'"{call.removeprefix("gpumem.")}"' in (root / 'python/gpumem/__init__.py').read_text()
    if call.startswith('GPUMEM_'):
        return f'| `{call}` |' in (root / 'man/gpumem.3.md').read_text()
    page = re.fullmatch(r'([\w.-]+)\((\d)\)', call)
    return page and (root / f'man/{page[1]}.{page[2]}.md').exists()


def has_test(root, test):
    program, _, case = test.partition(': ')
    kind, _, name = program.partition('_')
    if kind == 'live':
        paths, text = root.glob(f'tests/live/*/test_{name}.c'), rf'^TEST\({case}[,)]'
    elif kind == 'python':
        paths, text = root.glob(f'tests/python/test_{name}.py'), rf'^    def {case}\('
    else:
        return False
    return any(re.search(text, path.read_text(), re.MULTILINE) for path in paths)


def check(root, text):
    problems = []
    for feature, calls, tests in rows(text):
        problems += [f'{feature}: no call is named'] if not calls else []
        problems += [f'{feature}: no test is named'] if not tests else []
        problems += [f'{feature}: {call}: there is no such call' for call in calls if not has_call(root, call)]
        problems += [f'{feature}: {test}: there is no such test' for test in tests if not has_test(root, test)]
    return problems


def main(root):
    text = (root / TABLE).read_text()
    wrong = '| a | | | | `gpumem_none` `gpumem.none` `GPUMEM_NONE` `none(5)` | `live_cache: none` `python_buffers: none` `x: y` |\n'
    report = tap.Report()
    report.case('each feature has a call and a test that exist', check(root, text))
    report.case('the table is found', [] if len(list(rows(text))) > 20 else ['it has few rows'])
    found = check(root, wrong + '| b | | | | | |\n')
    report.case('what does not exist is found', [] if len(found) == 9 else found)
    return report.finish()


if __name__ == '__main__':
    sys.exit(main(pathlib.Path(sys.argv[1])))
