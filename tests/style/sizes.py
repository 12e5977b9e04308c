#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on a source file that is too long, and on a folder of the product that holds too many.

    sizes.py ROOT

A file is split by meaning, and a folder into rooms, before either reaches its ceiling.
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

SUFFIXES = ('.c', '.h', '.def')
LINES_MAX = 600
FILES_MAX = 26
NOT_PRODUCT = ('tests/', 'bench/')


def too_long(lengths):
    """Of {path: its lines}."""
    return [f'{path}: {n} lines, the ceiling is {LINES_MAX}' for path, n in sorted(lengths.items()) if n > LINES_MAX]


def too_full(paths):
    folders = collections.Counter(str(pathlib.PurePath(path).parent) for path in paths
                                  if not path.startswith(NOT_PRODUCT))
    return [f'{folder}/: {n} files, the ceiling is {FILES_MAX}' for folder, n in sorted(folders.items())
            if n > FILES_MAX]


def main():
    root = pathlib.Path(sys.argv[1])
    lengths = {path.as_posix(): len((root / path).read_text().splitlines())
               for path in tap.project_files(root, *SUFFIXES)}
    report = tap.Report()
    report.case('there are sources', [] if len(lengths) > 100 else [f'{len(lengths)} files'])
    report.case('no source is too long', too_long(lengths))
    report.case('no folder of the product holds too many', too_full(lengths))
    report.case('a file that is too long is found',
                [] if len(too_long({'base/a.c': LINES_MAX, 'base/b.c': LINES_MAX + 1})) == 1 else ['it is not'])
    crowd = [f'{folder}/{i}.c' for folder in ('base', 'tests/unit/base') for i in range(FILES_MAX + 1)]
    report.case('a folder that is too full is found',
                [] if len(too_full(crowd)) == 1 and not too_full(crowd[1:FILES_MAX + 1]) else ['it is not'])
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
