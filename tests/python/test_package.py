# SPDX-License-Identifier: Apache-2.0
"""An archive of the sources, the wheel that is built from it, and the package installed by it."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest
import zipfile

import frameworks
import world

MACHINE = world.World()
ROOT = world.PACKAGE_FOLDER.parent
FOLDERS = ('base', 'client', 'driver', 'include', 'proto', 'python')
FILES = ('LICENSE', 'meson.build', 'meson_options.txt')


def setUpModule():
    frameworks.python()
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Package(unittest.TestCase):
    """Each of its tests needs what the class has built."""

    @classmethod
    def setUpClass(cls):
        cls.tree = MACHINE.folder / 'tree'
        cls.tree.mkdir()
        built = shutil.ignore_patterns('build', 'dist', 'lib', '*.egg-info', '__pycache__')
        for name in FOLDERS:
            shutil.copytree(ROOT / name, cls.tree / name, symlinks=True, ignore=built)
        for name in FILES:
            shutil.copy(ROOT / name, cls.tree / name)
        cls.command('setup.py', '--quiet', 'sdist', '--dist-dir', MACHINE.folder / 'sdist')
        cls.archive = next((MACHINE.folder / 'sdist').iterdir())
        cls.command('-m', 'pip', 'wheel', '--no-build-isolation', '--no-deps', '--no-index',
                    '--wheel-dir', MACHINE.folder / 'wheel', cls.archive)
        cls.wheel = next((MACHINE.folder / 'wheel').iterdir())
        cls.command('-m', 'pip', 'install', '--no-index', '--target', MACHINE.folder / 'installed',
                    cls.wheel)

    @classmethod
    def command(cls, *arguments, **more):
        """Python's, in python/ of the tree."""
        python = frameworks.python()
        environment = MACHINE.environment | {
            'PATH': f'{python.parent}:{MACHINE.environment["PATH"]}', 'PYTHONPATH': ''} | more
        ran = subprocess.run([python, *map(str, arguments)], cwd=cls.tree / 'python', text=True,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=600, check=False)
        if ran.returncode:
            raise RuntimeError(ran.stdout)

    def test_the_tag_is_what_the_library_needs(self):
        self.assertRegex(self.wheel.name, r'^gpumem-[0-9.]+-py3-none-manylinux_2_[0-9]+_\w+\.whl$')
        library = MACHINE.folder / 'installed' / 'gpumem' / 'lib' / 'libgpumem-client.so.0'
        said = subprocess.run(['readelf', '--dynamic', '--version-info', library], check=True,
                              capture_output=True, text=True).stdout
        newest = max(map(int, re.findall(r'GLIBC_2\.([0-9]+)', said)))
        self.assertIn(f'manylinux_2_{newest}_', self.wheel.name)
        self.assertLessEqual(set(re.findall(r'\(NEEDED\).*\[(.*?)[.-]', said)),
                             {'libc', 'libm', 'ld'})

    def test_a_package_that_is_missing_is_named(self):
        compiler = MACHINE.folder / 'cc'
        compiler.write_text('#!/bin/sh\ncase "$(cat)" in *uthash*) exit 1 ;; esac\n')
        compiler.chmod(0o755)
        for name, packages in ((compiler, 'uthash-dev'),
                               ('/nowhere/cc', 'gcc libc6-dev uthash-dev')):
            with self.assertRaises(RuntimeError) as caught:
                self.command('setup.py', '--quiet', 'build', CC=str(name))
            self.assertEqual(str(caught.exception).splitlines()[-1],
                             'gpumem: libgpumem-client cannot be built, since packages are '
                             f'missing: sudo apt install {packages}')

    def test_what_is_in_it(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        self.assertIn('gpumem/py.typed', names)
        self.assertIn('gpumem/lib/libgpumem-client.so.0', names)
        self.assertTrue(any(name.endswith('licenses/LICENSE') for name in names))
        sources = {path.relative_to(world.PACKAGE_FOLDER).as_posix()
                   for path in (world.PACKAGE_FOLDER / 'gpumem').rglob('*.py')}
        self.assertEqual({name for name in names if name.endswith('.py')}, sources)

    def test_its_headers_are_enough_to_compile_with(self):
        # Those of the system are not those of the wheel.
        ran = subprocess.run(['cc', '-fsyntax-only', '-nostdinc', '-ffreestanding', '-isystem',
                              self.own_headers(),
                              '-I', MACHINE.folder / 'installed' / 'gpumem' / 'include', '-x', 'c', '-'],
                             input='#include <gpumem-adapters.h>\nstruct gpumem_stats stats;\n',
                             text=True, capture_output=True, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    @staticmethod
    def own_headers():
        """The compiler's: <stddef.h> and <stdint.h> without those of a system."""
        ran = subprocess.run(['cc', '-print-file-name=include'], text=True, capture_output=True,
                             check=True)
        return ran.stdout.strip()

    def test_it_serves_with_its_own_library(self):
        installed = MACHINE.folder / 'installed'
        environment = {name: value for name, value in MACHINE.environment.items()
                       if name != 'GPUMEM_LIBRARY'} | {'PYTHONPATH': str(installed)}
        ran = MACHINE.run('-m', 'gpumem', 'doctor', '--json', environment=environment,
                          cwd=MACHINE.folder)
        checks = {check['name']: check for check in json.loads(ran.stdout)['checks']}
        self.assertIn(str(installed), checks['library']['text'])
        self.assertEqual(checks['client']['state'], 'ok', ran.stdout)
        self.assertEqual(ran.returncode, 0)

    def test_a_named_library_wins(self):
        environment = MACHINE.environment | {'PYTHONPATH': str(MACHINE.folder / 'installed')}
        ran = MACHINE.run('-c', 'import gpumem._library as l; print(l.load().path)',
                          environment=environment, cwd=MACHINE.folder)
        self.assertEqual(pathlib.Path(ran.stdout.strip()),
                         pathlib.Path(MACHINE.environment['GPUMEM_LIBRARY']), ran.stderr)


if __name__ == '__main__':
    unittest.main()
