#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the layout of all C with .clang-format, or with --write applies it.

    format.py [--write] ROOT
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

# Versions differ in what they make of the same settings.
VERSION = '14'


def find_clang_format():
    for name in (f'clang-format-{VERSION}', 'clang-format'):
        if path := shutil.which(name):
            said = subprocess.run([path, '--version'], capture_output=True, text=True, check=True)
            if re.search(rf'version {VERSION}\.', said.stdout):
                return path
    return None


def main():
    write = sys.argv[1] == '--write'
    root = pathlib.Path(sys.argv[-1])
    files = [str(path) for path in tap.project_files(root, '.c', '.h')]
    clang_format = find_clang_format()
    if clang_format is None:
        problems = [f'clang-format {VERSION} is not installed']
    elif write:
        return subprocess.run([clang_format, '-i', *files], cwd=root, check=False).returncode
    else:
        ran = subprocess.run([clang_format, '--dry-run', '-Werror', '--ferror-limit=1', *files],
                             cwd=root, capture_output=True, text=True, check=False)
        problems = ran.stderr.splitlines()
        if ran.returncode and not problems:
            problems = [f'clang-format failed with status {ran.returncode}']

    if write:
        print('\n'.join(problems), file=sys.stderr)
        return 1
    report = tap.Report()
    report.case('C is laid out as .clang-format says', problems)
    report.case('there are C files', [] if files else ['none found'])
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
