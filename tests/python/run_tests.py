#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs modules of unittest and prints TAP.

    run_tests.py MODULE...
"""

import sys
import traceback
import unittest

import world  # noqa: F401 - where the package is


class TapResult(unittest.TestResult):
    """One line a test."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def _line(self, word, test, rest=''):
        self.n += 1
        print(f'{word} {self.n} - {test.id()}{rest}', flush=True)

    def _not_ok(self, test, problem):
        self._line('not ok', test)
        for line in ''.join(traceback.format_exception(*problem)).splitlines():
            print(f'#   {line}', flush=True)

    def addSuccess(self, test):
        self._line('ok', test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._not_ok(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self._not_ok(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._not_ok(subtest, err)

    def addSkip(self, test, reason):
        self._line('ok', test, f' # SKIP {reason}')


def main():
    result = TapResult()
    unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]).run(result)
    if not result.n:
        print('not ok 1 - there are tests')
        result.n = 1
    print(f'1..{result.n}')
    return 0 if result.wasSuccessful() and result.n else 1


if __name__ == '__main__':
    sys.exit(main())
