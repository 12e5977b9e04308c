#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on words that do not belong in a finished tree: notes to oneself, one machine's paths, and words that
leave open which client, process or user a sentence is about.

    words.py ROOT
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

# Put together here so that this file does not fail by itself.
NOTE = re.compile(r'\b(' + '|'.join(['TO' 'DO', 'FIX' 'ME', 'X' 'XX']) + r')\b')
MACHINE = re.compile(r'(?<![\w.$}/-])/(work|home|Users|tmp/' r'wt)(?![\w-])')

# A sentence names the client, the process or the user instead; a message says what is expected.
VAGUE = re.compile(r'\b(' + '|'.join(['who' 'ever', 'an' 'ew', 'no' 'body', 'some' 'body',
                                      'is no (?:si' 'ze|pro' 'cess|na' 'me)']) + r')\b', re.IGNORECASE)


def text_lines(root):
    for path in tap.project_files(root):
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue
        if '\0' in text:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield path, number, line


def find(pattern, lines):
    return [f'{path}:{number}: {line.strip()[:100]}'
            for path, number, line in lines if pattern.search(line)]


def main():
    lines = list(text_lines(pathlib.Path(sys.argv[1])))
    report = tap.Report()
    report.case('no notes to oneself', find(NOTE, lines))
    report.case('no paths of one machine', find(MACHINE, lines))
    report.case('no words that leave open which process is meant',
                find(VAGUE, lines))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
