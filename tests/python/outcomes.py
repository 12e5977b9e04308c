#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs modules of unittest and writes how each test ended, as JSON, into a file.

    outcomes.py FILE MODULE...
"""

import json
import sys
import unittest


class Outcomes(unittest.TestResult):
    """Of each test, by its name without the module's folder."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def _note(self, test, word):
        name = '.'.join(test.id().split('.')[-3:])
        if self.of.get(name) in (None, 'passes'):
            self.of[name] = word

    def addSuccess(self, test):
        self._note(test, 'passes')

    def addFailure(self, test, err):
        self._note(test, 'fails')

    def addError(self, test, err):
        self._note(test, 'fails')

    def addSubTest(self, test, subtest, err):
        self._note(test, 'passes' if err is None else 'fails')

    def addSkip(self, test, reason):
        self._note(test, 'is skipped')

    def addExpectedFailure(self, test, err):
        self._note(test, 'passes')

    def addUnexpectedSuccess(self, test):
        self._note(test, 'fails')


def main():
    result = Outcomes()
    for name in sys.argv[2:]:
        unittest.defaultTestLoader.loadTestsFromName(name).run(result)
    with open(sys.argv[1], 'w') as file:
        json.dump(result.of, file)


if __name__ == '__main__':
    main()
