#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a program or library wants a symbol of the CUDA driver, runtime or NVML at load time.

    symbols.py NM FILE...
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

DRIVER_SYMBOL = re.compile(r'(cu|cuda|nvml)[A-Z]')


def undefined_symbols(nm, file):
    """What the static and the dynamic table of a file leave undefined. No table is no symbol."""
    names = set()
    for table in ('--undefined-only', '--undefined-only -D'):
        ran = subprocess.run([nm, '-P', *table.split(), file], capture_output=True, text=True,
                             check=False)
        if ran.returncode:
            raise RuntimeError(f'{nm} {table} {file}: {ran.stderr.strip()}')
        names |= {line.split()[0] for line in ran.stdout.splitlines() if line.strip()}
    return sorted(names)


def main():
    nm, *files = sys.argv[1:]
    report = tap.Report()
    for file in files:
        names = undefined_symbols(nm, file)
        problems = [name for name in names if DRIVER_SYMBOL.match(name)]
        if not names:
            # Everything here calls libc: an empty list means that the tables were not read.
            problems = ['nm shows no undefined symbol at all']
        report.case(f'{pathlib.Path(file).name} wants no symbol of a driver', problems)
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
