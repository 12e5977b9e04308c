#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads on stdin what ninja says of a build with -fanalyzer: a line for each finding that is not in
the list of those that were looked at, and for each line of the list that no finding needs any more.

    analyzer.py LIST
"""

import pathlib
import re
import sys

JOB = re.compile(r'\[\d+/\d+\] Compiling C object (\S+)')
FUNCTION = re.compile(r'(?:(\S+): )?In function [‘\'](\w+)(?:\.\S+)?[’\']:')
FINDING = re.compile(r'(\S+?)(?::\d+)*: (?:warning|error): (.*) \[-Wanalyzer-([\w-]+)\]$')
OTHER = re.compile(r'\S+: (?:warning|error): ')


def findings(lines):
    """(file, function, which finding, the line). Some are the compiler's own: these name no file."""
    job = function = ''
    for line in lines:
        if match := JOB.match(line):
            job = match[1]
        elif match := FUNCTION.match(line):
            function = match[2]
        elif match := FINDING.match(line):
            yield source_of(match[1], job), function, match[3], line
        elif OTHER.match(line):
            yield '', '', '', line


def source_of(name, job):
    """client/libclient.a.p/api_free.c.o is made of client/api/free.c."""
    if name != 'cc1':
        return name.removeprefix('../')
    folder, _, flat = re.sub(r'/[^/]+\.p/', '//', job).removesuffix('.o').partition('//')
    folder = pathlib.Path(folder)
    return next((str(path) for path in sorted(folder.rglob('*.c'))
                 if str(path.relative_to(folder)).replace('/', '_') == flat), job)


def read_list(path):
    lines = [line.strip() for line in path.read_text().splitlines()]
    return {tuple(line.split()) for line in lines if line and not line.startswith('#')}


def main():
    known = read_list(pathlib.Path(sys.argv[1]))
    needed = set()
    said = set()
    for file, function, which, line in findings(sys.stdin.read().splitlines()):
        if (file, function, which) in known:
            needed.add((file, function, which))
        else:
            said.add(f'{line} ({file}, {function})')
    said.update(f'{sys.argv[1]}: nothing of the kind is found: {" ".join(entry)}'
                for entry in known - needed)
    for line in sorted(said):
        print(line)


if __name__ == '__main__':
    main()
