#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a test program is not built: a merge may lose its line of meson.build, and nothing else fails then.

    built.py ROOT

The meson.build that is nearest to tests/**/test_NAME.c names it, as test_NAME or as NAME, with or without the
name of its folder.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

WORD = re.compile(r"'(\w+)(?:\.c)?'")


def find_meson(root, path):
    return next((folder / 'meson.build' for folder in path.parents
                 if folder != root and folder.is_relative_to(root) and (folder / 'meson.build').exists()), None)


def names_of(path):
    name, folder = path.stem.removeprefix('test_'), path.parent.name
    return {path.stem, name, name.removeprefix(f'{folder}_').removesuffix(f'_{folder}')}


def check_built(root):
    problems = []
    for path in sorted(root.glob('tests/**/test_*.c')):
        meson = find_meson(root, path)
        if meson is None or not names_of(path) & set(WORD.findall(meson.read_text())):
            problems.append(f'{path.relative_to(root)}: no meson.build names it')
    return problems


def main():
    report = tap.Report()
    report.case('every test program is built', check_built(pathlib.Path(sys.argv[1]).resolve()))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
