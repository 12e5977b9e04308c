#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a source file whose first lines do not name the project's licence.

    licences.py ROOT
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

LINE = 'SPDX-License-Identifier: Apache-2.0'
SUFFIXES = ('.c', '.h', '.def', '.cc', '.cpp', '.hpp', '.cu', '.map', '.py', '.sh')
NAMES = ('meson.build', 'meson_options.txt', 'Makefile')
# An interpreter's line, and a coding line, may stand before it.
FIRST_LINES = 3


def is_source(root, path):
    if path.suffix in SUFFIXES or path.name in NAMES or path.name.endswith('.sh.in'):
        return True
    with open(root / path, 'rb') as file:
        return file.read(2) == b'#!'


def main():
    root = pathlib.Path(sys.argv[1])
    sources = [path for path in tap.project_files(root) if is_source(root, path)]
    without = [f'{path}: no line "{LINE}"' for path in sources
               if LINE not in '\n'.join((root / path).read_text().splitlines()[:FIRST_LINES])]
    report = tap.Report()
    report.case('each source names the licence', without)
    report.case('there are sources', [] if sources else ['none found'])
    text = (root / 'LICENSE').read_text() if (root / 'LICENSE').exists() else ''
    report.case('LICENSE is that licence',
                [] if 'Apache License' in text and 'Version 2.0' in text else ['it is not'])
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
