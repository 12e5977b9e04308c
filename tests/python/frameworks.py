# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with the frameworks of requirements.txt, made once a build folder.

GPUMEM_TEST_VENV names its folder. Without a network the tests that want it are left out, aloud.
"""

import fcntl
import functools
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import world

REQUIREMENTS = pathlib.Path(__file__).parent / 'requirements.txt'
SECONDS = 600


def _stamp():
    """What the environment is made of."""
    return hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()


def _pip(folder, *arguments):
    return subprocess.run(
        [folder / 'bin' / 'python', '-m', 'pip', '--disable-pip-version-check', *arguments],
        capture_output=True, text=True, timeout=SECONDS, check=False)


def _index_answers(folder):
    """Whether pip gets anything at all: a package of few bytes."""
    with tempfile.TemporaryDirectory() as into:
        return _pip(folder, 'download', '--quiet', '--no-deps', '--retries', '0', '--timeout', '15',
                    '--no-cache-dir', '--dest', into, 'iniconfig').returncode == 0


def _make(folder):
    """None, or why there is none."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, '-m', 'venv', folder], check=True, capture_output=True)
    if not _index_answers(folder):
        return 'no package index answers, so the frameworks could not be installed'
    ran = _pip(folder, 'install', '--quiet', '--requirement', REQUIREMENTS)
    if ran.returncode:
        raise RuntimeError(f'pip cannot install {REQUIREMENTS}: {ran.stderr}')
    (folder / 'stamp').write_text(_stamp())
    return None


@functools.cache
def _ready():
    folder = pathlib.Path(os.environ['GPUMEM_TEST_VENV'])
    with folder.with_suffix('.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the tests of frameworks one makes it
        stamp = folder / 'stamp'
        if stamp.exists() and stamp.read_text() == _stamp():
            return folder, None
        return folder, _make(folder)


def python():
    """The environment's interpreter. SkipTest where there is none."""
    folder, problem = _ready()
    if problem is not None:
        raise unittest.SkipTest(problem)
    return folder / 'bin' / 'python'


def run_program(machine, source, *, name='program.py', **more):
    """Runs a program of a few lines under `python -m gpumem run`; it may import world."""
    program = machine.folder / name
    program.write_text(source)
    folders = os.pathsep.join([str(world.PACKAGE_FOLDER), str(pathlib.Path(__file__).parent)])
    environment = machine.with_driver() | {
        'GPUMEM_REQUIRED': '1', 'GPUMEM_CUDA_LIBRARY': 'libcuda.so.1', 'PYTHONPATH': folders}
    return machine.run('-m', 'gpumem', 'run', program, python=python(), timeout=180,
                       environment=environment | more)
