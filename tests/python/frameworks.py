# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with the frameworks of requirements.txt, made once a build folder.

GPUMEM_TEST_VENV names its folder. Without a network the tests that want it are left out, aloud. A second one holds those
of requirements-large.txt too, for tests that `make frameworks` runs.
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

HERE = pathlib.Path(__file__).parent
REQUIREMENTS = [HERE / 'requirements.txt']
LARGE = [*REQUIREMENTS, HERE / 'requirements-large.txt']
SECONDS = 600


def _stamp(files):
    """What the environment is made of."""
    content = b''.join(file.read_bytes() for file in files)
    return hashlib.sha256(content + sys.version.encode()).hexdigest()


def _pip(folder, *arguments):
    return subprocess.run(
        [folder / 'bin' / 'python', '-m', 'pip', '--disable-pip-version-check', *arguments],
        capture_output=True, text=True, timeout=SECONDS, check=False)


def _index_answers(folder):
    """Whether pip gets anything at all: a package of few bytes."""
    with tempfile.TemporaryDirectory() as into:
        return _pip(folder, 'download', '--quiet', '--no-deps', '--retries', '0', '--timeout', '15',
                    '--no-cache-dir', '--dest', into, 'iniconfig').returncode == 0


def _make(folder, files):
    """None, or why there is none."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, '-m', 'venv', folder], check=True, capture_output=True)
    if not _index_answers(folder):
        return 'no package index answers, so the frameworks could not be installed'
    ran = _pip(folder, 'install', '--quiet', *(f'--requirement={file}' for file in files))
    if ran.returncode:
        raise RuntimeError(f'pip cannot install {files[-1]}: {ran.stderr}')
    (folder / 'stamp').write_text(_stamp(files))
    return None


@functools.cache
def _ready(large):
    files = LARGE if large else REQUIREMENTS
    folder = pathlib.Path(os.environ['GPUMEM_TEST_VENV'] + ('-large' if large else ''))
    with folder.with_suffix('.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the tests of frameworks one makes it
        stamp = folder / 'stamp'
        if stamp.exists() and stamp.read_text() == _stamp(files):
            return folder, None
        return folder, _make(folder, files)


def python(large=False):
    """The environment's interpreter. SkipTest where there is none."""
    folder, problem = _ready(large)
    if problem is not None:
        raise unittest.SkipTest(problem)
    return folder / 'bin' / 'python'


def run_program(machine, source, *, folders=(), large=False, **more):
    """Runs a program of a few lines under `python -m gpumem run`; it may import world, and what is in `folders`."""
    program = machine.folder / 'program.py'
    program.write_text(source)
    paths = [world.PACKAGE_FOLDER, pathlib.Path(__file__).parent, *folders]
    environment = machine.with_driver() | {
        'GPUMEM_REQUIRED': '1', 'GPUMEM_CUDA_LIBRARY': 'libcuda.so.1',
        'PYTHONPATH': os.pathsep.join(map(str, paths))}
    return machine.run('-m', 'gpumem', 'run', program, timeout=90, environment=environment | more,
                       python=sys.executable if folders else python(large))
