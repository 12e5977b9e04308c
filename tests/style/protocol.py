#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the tables of PROTOCOL.md with what the lists say, or with --write puts them there.

    protocol.py [--write] TABLES DOCUMENT    (TABLES: the program that prints them)
"""

import difflib
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

SECTION = re.compile(r'^<!-- generated: begin (\S+) -->$.*?^<!-- end -->$', re.MULTILINE | re.DOTALL)


def read_sections(text):
    return [(match[1], match[0]) for match in SECTION.finditer(text)]


def put_sections(document, sections):
    """The document with each of its sections as in `sections`; unknown ones stay as they are."""
    return SECTION.sub(lambda match: sections.get(match[1], match[0]), document)


def check_names(document, sections):
    """Each section has one place in the document."""
    places = [name for name, _ in read_sections(document)]
    return ([f'{name}: has {places.count(name)} places in the document'
             for name in sections if places.count(name) != 1] +
            [f'{name}: is not generated' for name in places if name not in sections])


def check_text(document, sections):
    wanted = put_sections(document, sections)
    return list(difflib.unified_diff(document.splitlines(), wanted.splitlines(), 'document',
                                     'lists', n=0, lineterm=''))[:40]


def check_unanswered(document):
    """The sentence that lists the messages without an answer has those whose text says so."""
    listed = re.search(r'([A-Z_, ]+ and [A-Z_]+) have no answer unless they fail', ' '.join(document.split()))
    listed = re.findall(r'[A-Z_]+', listed[1]) if listed else []
    unanswered = re.findall(r'^### ([A-Z_]+)\n\n.*\bNo answer\b', document, re.MULTILINE)
    return [f'{name}: is not listed' for name in unanswered if name not in listed]


def main():
    tables, path = sys.argv[-2], pathlib.Path(sys.argv[-1])
    ran = subprocess.run([tables], capture_output=True, text=True, check=True)
    sections = dict(read_sections(ran.stdout))
    document = path.read_text()
    if sys.argv[1] == '--write':
        path.write_text(put_sections(document, sections))
        return 0

    report = tap.Report()
    report.case('there are tables', [] if sections else ['none was printed'])
    report.case('every table has its place', check_names(document, sections))
    report.case('every table is as the lists say', check_text(document, sections))
    report.case('every message without an answer is listed', check_unanswered(document))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
