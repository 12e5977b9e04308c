# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/frameworks.md: each is run here, or on a GPU by gpu-bundle/run python."""

import pathlib
import re
import unittest

import examples
import frameworks
import world

ROOT = pathlib.Path(__file__).resolve().parents[2]
MACHINE = world.World(devices=1)  # of its environment only: what runs the examples has a daemon of its own


def tearDownModule():
    MACHINE.stop()


class Examples(unittest.TestCase):
    """As they stand in the document."""

    def test_an_example_without_a_name_is_refused(self):
        with self.assertRaisesRegex(ValueError, "before 'import x'"):
            examples.examples('text\n\n```python\nimport x\n```\n')
        made = examples.examples('<!-- example: a, on a GPU -->\n```python\nimport x\n```\n')
        self.assertEqual(made, [('a', True, 'import x\n')])

    def test_the_bundle_runs_all(self):
        """It has the document and what runs it; the word `python` of its script begins that."""
        bundle = (ROOT / '.ci' / 'gpu-bundle').read_text()
        self.assertIn('docs/frameworks.md "$bundle/docs/"', bundle)
        self.assertIn('tests/python/examples.py', bundle)
        suites = (ROOT / 'tests' / 'gpu-bundle' / 'run').read_text()
        suite = re.search(r'\n        python\)\n(.*?);;', suites, re.DOTALL)[1]
        self.assertIn('"$here/tests/python/examples.py"', suite)

    def test_here(self):
        wanted = examples.examples(examples.DOCUMENT.read_text())
        self.assertEqual(len({example.name for example in wanted}), len(wanted), 'names differ')
        ran = MACHINE.run(examples.__file__, python=frameworks.python(), timeout=300)
        lines = [line for line in ran.stdout.splitlines() if not line.startswith('#')]
        self.assertEqual(lines, [
            f'ok {number} - {example.name}' + (' # SKIP it needs a GPU' if example.needs_gpu else '')
            for number, example in enumerate(wanted, 1)] + [f'1..{len(wanted)}'], ran.stdout + ran.stderr)
        self.assertGreater(sum(not example.needs_gpu for example in wanted), 2)


if __name__ == '__main__':
    unittest.main()
