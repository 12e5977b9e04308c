# SPDX-License-Identifier: Apache-2.0
"""A gpumemd of the tests' own on the emulated driver, and the environment of those who use it.

What is built is named by the environment: GPUMEM_TEST_DAEMON, GPUMEM_TEST_CTL, GPUMEM_TEST_LIBRARY,
GPUMEM_CUDA_LIBRARY.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

PACKAGE_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'python'
SECONDS = 60

sys.path.insert(0, str(PACKAGE_FOLDER))
sys.dont_write_bytecode = True


def wait_until(condition, seconds=SECONDS):
    """Returns whether `condition()` became true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _forget_settings(environment):
    """What a user has set must not steer the tests."""
    keep = ('GPUMEM_TEST_', 'GPUMEM_CUDA_LIBRARY')
    for name in list(environment):
        if name.startswith(('GPUMEM_', 'NUMBA_', 'CUDA_')) and not name.startswith(keep):
            del environment[name]


class World:
    """A machine of `devices` GPUs, and a daemon that may take `device_bytes` of each."""

    def __init__(self, devices=2, device_bytes='64MiB', pinned_bytes='64MiB'):
        roomy = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='gpumem-', dir=roomy))
        self.device_bytes, self.pinned_bytes = device_bytes, pinned_bytes
        self.daemon = None
        self.environment = dict(os.environ)
        _forget_settings(self.environment)
        self.environment |= {
            'GPUMEM_SOCKET': str(self.folder / 'gpumemd.sock'),
            'GPUMEM_EMULATOR': f'devices={devices},bytes=8GiB,dir={self.folder}/devices',
            'GPUMEM_KERNELS': '0',
            'GPUMEM_LIBRARY': os.environ['GPUMEM_TEST_LIBRARY'],
            'PYTHONPATH': str(PACKAGE_FOLDER),
            'PYTHONDONTWRITEBYTECODE': '1',
        }
        (self.folder / 'empty.conf').write_text('{}\n')

    def start(self):
        """Returns when the daemon serves."""
        if not pathlib.Path(self.environment['GPUMEM_LIBRARY']).exists():
            raise RuntimeError(f'{self.environment["GPUMEM_LIBRARY"]} is not built')
        command = [os.environ['GPUMEM_TEST_DAEMON'], '--config', str(self.folder / 'empty.conf'),
                   '--log', 'warning', '--device-bytes', self.device_bytes,
                   '--pinned-bytes', self.pinned_bytes]
        self.daemon = subprocess.Popen(command, env=self.environment,
                                       stderr=(self.folder / 'gpumemd.log').open('wb'))
        if not wait_until(lambda: self.ctl('stats') is not None):
            raise RuntimeError(self.said())
        return self

    def said(self):
        """What the daemon has complained of."""
        return (self.folder / 'gpumemd.log').read_text()

    def ctl(self, *arguments):
        """What gpumemctl says as JSON; None if it fails."""
        command = [os.environ['GPUMEM_TEST_CTL'], *arguments, '--json']
        ran = subprocess.run(command, env=self.environment, capture_output=True, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 else None

    def kill(self):
        """The daemon ends; its folder stays."""
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None

    def stop(self):
        """Everything ends."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def with_driver(self):
        """The environment in which every program finds the emulated driver as libcuda.so.1."""
        folder = self.folder / 'driver'
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / 'libcuda.so.1').symlink_to(os.environ['GPUMEM_CUDA_LIBRARY'])
        environment = {k: v for k, v in self.environment.items() if k != 'GPUMEM_CUDA_LIBRARY'}
        return environment | {'LD_LIBRARY_PATH': str(folder)}

    def run(self, *arguments, environment=None, python=sys.executable, timeout=SECONDS, **more):
        """Runs Python; gives what subprocess.run does, with texts."""
        return subprocess.run([python, *map(str, arguments)], env=environment or self.environment,
                              capture_output=True, text=True, timeout=timeout, check=False, **more)


def enter(world):
    """This process uses that world from now on: before gpumem is first used."""
    for name in set(os.environ) - set(world.environment):
        del os.environ[name]
    os.environ.update(world.environment)


class Cuda:
    """The driver, as far as tests call it."""

    def __init__(self):
        self._library = ctypes.CDLL(os.environ['GPUMEM_CUDA_LIBRARY'])
        self.call('cuInit', 0)

    def call(self, name, *arguments):
        """Calls a function; any result but success is an error."""
        result = getattr(self._library, name)(*arguments)
        if result:
            raise RuntimeError(f'{name}: {result}')

    def make_current(self, device=0):
        """The primary context of a device is current on this thread."""
        context = ctypes.c_void_p()
        self.call('cuDevicePrimaryCtxRetain', ctypes.byref(context), device)
        self.call('cuCtxSetCurrent', context)

    def make_nothing_current(self):
        """No context is."""
        self.call('cuCtxSetCurrent', ctypes.c_void_p())

    def stream(self, flags=0):
        """A new stream's handle."""
        made = ctypes.c_void_p()
        self.call('cuStreamCreate', ctypes.byref(made), flags)
        return made.value

    def is_idle(self, stream):
        """Whether all work of a stream is over."""
        return not self._library.cuStreamQuery(ctypes.c_void_p(stream))

    def destroy(self, stream):
        """Its end."""
        self.call('cuStreamDestroy_v2', ctypes.c_void_p(stream))

    def fill(self, pointer, byte, n_bytes, stream=0):
        """Bytes of device memory."""
        self.call('cuMemsetD8Async', ctypes.c_uint64(pointer), ctypes.c_ubyte(byte),
                  ctypes.c_size_t(n_bytes), ctypes.c_void_p(stream))

    def read(self, pointer, n_bytes):
        """Bytes of device memory, when all work is over."""
        self.call('cuCtxSynchronize')
        into = ctypes.create_string_buffer(n_bytes)
        self.call('cuMemcpyDtoH_v2', into, ctypes.c_uint64(pointer), ctypes.c_size_t(n_bytes))
        return into.raw
