#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what a library exports with what its headers declare.

    exports.py NM NODE LIBRARY HEADER...    (NODE: the version of every symbol)
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)
DIRECTIVE = re.compile(r'^\s*#.*(?:\\\n.*)*$', re.MULTILINE)
DECLARATION = re.compile(r'\bGPUMEM_API\b[^;(]*?(\w+)\s*\(')


def declared(headers):
    texts = [DIRECTIVE.sub('', COMMENT.sub('', pathlib.Path(header).read_text())) for header in headers]
    return sorted(name for text in texts for name in DECLARATION.findall(text))


def exported(nm, library):
    """name@@NODE of all that the loader finds in the library, but for the nodes themselves."""
    ran = subprocess.run([nm, '-P', '-D', '--defined-only', library], capture_output=True,
                         text=True, check=True)
    symbols = [line.split()[:2] for line in ran.stdout.splitlines() if line.strip()]
    return sorted(name for name, kind in symbols if kind != 'A')


def main():
    nm, node, library, *headers = sys.argv[1:]
    wanted = [f'{name}@@{node}' for name in declared(headers)]
    found = exported(nm, library)
    report = tap.Report()
    report.case('the headers declare functions', [] if wanted else [f'none in {", ".join(headers)}'])
    report.case('what is declared is exported',
                [f'{name}: not exported' for name in wanted if name not in found])
    report.case('what is exported is declared',
                [f'{name}: not declared' for name in found if name not in wanted])
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
