#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the targets of a build with -Db_coverage=true over the tree's inputs, and changes of them, and
says how many lines of proto/ they reach.

    coverage.py BUILD
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILE = re.compile(r"^File '(?:.*/)?(proto/\w+\.[ch])'\nLines executed:([\d.]+)% of (\d+)", re.MULTILINE)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for corpus in sorted((ROOT / 'tests/fuzz/corpus').glob('*.hex')):
        subprocess.run([build / f'tests/fuzz/fuzz-{corpus.stem}', corpus], check=True,
                       stdout=subprocess.DEVNULL)
    folder = build / 'proto/libproto.a.p'
    notes = sorted(folder.glob('*.gcda'))
    done = subprocess.run(['gcov', '-n', '-o', folder, *notes], cwd=build, check=True, text=True,
                          capture_output=True)
    files = {}
    for name, percent, n_lines in FILE.findall(done.stdout):
        n_reached = round(float(percent) * int(n_lines) / 100)
        if name not in files or n_reached > files[name][0]:
            files[name] = (n_reached, int(n_lines))
    for name, (n_reached, n_lines) in sorted(files.items()):
        print(f'{name}: {n_reached} of {n_lines} lines')
    n_reached, n_lines = map(sum, zip(*files.values()))
    print(f'proto: {n_reached} of {n_lines} lines, {100 * n_reached // n_lines} %')
    return 0


if __name__ == '__main__':
    sys.exit(main())
