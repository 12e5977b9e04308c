# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem doctor: what it finds, and what it says to do."""

import contextlib
import ctypes
import errno
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import world

MACHINE = world.World()


def setUpModule():
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Found(contextlib.ExitStack):
    """What the mend of a missing daemon is chosen by, inside: a machine with these, and without the rest."""

    def __init__(self, *, named=False, unit=False, gpu=False, clone=None, program=None, emulated=False):
        super().__init__()
        from gpumem import _repair_commands
        for name, value in (('_has_unit', unit), ('_has_gpu', gpu), ('_clone', clone),
                            ('_gpumemd', program), ('is_emulated', emulated)):
            self.enter_context(mock.patch.object(_repair_commands, name, return_value=value))
        self.enter_context(mock.patch.dict(os.environ))
        os.environ.pop('GPUMEM_SOCKET', None)
        if named:
            os.environ['GPUMEM_SOCKET'] = 'named'


class Start(unittest.TestCase):
    """How a daemon that is gone is started again."""

    def mend(self, path, result=errno.ENOENT, **found):
        from gpumem import _repair_commands
        with Found(**found):
            return _repair_commands.daemon(str(path), result)

    def test_it_is_started_as_it_was(self):
        from gpumem import _where
        folder = MACHINE.folder / 'a folder'
        folder.mkdir()
        clone, gone = pathlib.Path('/the clone'), MACHINE.folder / 'gone' / 'socket'
        for path, found, mend in (
            (_where.DEFAULT, {'unit': True, 'program': 'gpumemd'}, 'sudo systemctl start gpumemd'),
            (folder / 's', {'unit': True, 'program': 'gpumemd', 'named': True},
             f"gpumemd --socket '{folder}/s'"),
            (folder / 's', {'program': '/b/gpumemd', 'named': True, 'clone': clone, 'emulated': True},
             f"/b/gpumemd --socket '{folder}/s'"),
            (gone, {'named': True, 'clone': clone, 'emulated': True, 'gpu': True, 'program': 'gpumemd'},
             "make -C '/the clone' play  # then set the variables that it prints"),
            (_where.DEFAULT, {'clone': clone},
             "make -C '/the clone' play  # then set the variables that it prints"),
            (gone, {'named': True, 'gpu': True, 'clone': clone}, 'unset GPUMEM_SOCKET'),
            (_where.DEFAULT, {'gpu': True, 'program': 'gpumemd'}, 'sudo systemctl start gpumemd'),
        ):
            with self.subTest(path=path, **found):
                self.assertEqual(self.mend(path, **found)[1], mend)

    def test_what_is_found_there(self):
        self.assertIn('has ended there, or has not begun', self.mend(MACHINE.folder / 'new')[0])
        self.assertIn('no folder', self.mend(MACHINE.folder / 'gone' / 'socket')[0])
        path = MACHINE.folder / 'left.sock'
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
            made.bind(str(path))
        self.assertEqual(self.mend(path, errno.ECONNREFUSED)[0], 'gpumemd has ended there')
        (MACHINE.folder / 'file').write_text('')
        self.assertEqual(self.mend(MACHINE.folder / 'file', errno.ECONNREFUSED, named=True),
                         ("it is not gpumemd's socket", 'unset GPUMEM_SOCKET'))

    def test_another_daemon_listens(self):
        with mock.patch('gpumem._where.default_paths', return_value=[MACHINE.environment['GPUMEM_SOCKET']]):
            why, mend = self.mend(MACHINE.folder / 'new', named=True, program='gpumemd')
        self.assertEqual(mend, 'unset GPUMEM_SOCKET')
        self.assertIn(MACHINE.environment['GPUMEM_SOCKET'], why)


class Doctor(unittest.TestCase):
    """What it finds, and what it says to do."""

    def checks(self, machine=MACHINE, **more):
        ran = machine.run('-m', 'gpumem', 'doctor', '--json',
                          environment=machine.environment | more)
        said = json.loads(ran.stdout)
        self.assertEqual(ran.returncode, 1 if said['faults'] else 0, ran.stdout)
        return {check['name']: check for check in said['checks']}

    def test_a_sound_machine(self):
        checks = self.checks()
        self.assertEqual([c for c in checks.values() if c['state'] == 'fault'], [])
        self.assertIn(f'pid {MACHINE.daemon.pid}', checks['daemon']['text'])
        self.assertEqual(checks['GPU 1']['state'], 'ok')
        self.assertIn('gpumemd', checks['nvidia-smi']['text'])

    def test_no_daemon(self):
        checks = self.checks(GPUMEM_SOCKET='/nowhere/gpumemd.sock')
        self.assertEqual(checks['daemon']['state'], 'fault')
        self.assertIn('there is no folder /nowhere', checks['daemon']['text'])
        self.assertEqual(checks['GPU 0']['state'], 'note')

    def test_a_daemon_that_has_ended(self):
        machine = world.World().start()
        self.addCleanup(machine.stop)
        path = machine.environment['GPUMEM_SOCKET']
        machine.kill()  # its socket stays
        gone = self.checks(machine)['daemon']
        self.assertIn('gpumemd has ended there', gone['text'])
        self.assertRegex(gone['mend'], f'^[^ ]*gpumemd --socket {path}$')
        with tempfile.NamedTemporaryFile('w') as said:  # the command is one that serves
            daemon = subprocess.Popen(gone['mend'], shell=True, env=machine.environment, stderr=said,
                                      start_new_session=True)
            self.addCleanup(daemon.wait)
            self.addCleanup(os.killpg, daemon.pid, signal.SIGKILL)
            self.assertTrue(world.wait_until(lambda: machine.ctl('stats') is not None))

    def test_no_permission(self):
        from gpumem import _doctor
        text, mend = _doctor._mend_permission(str(MACHINE.folder / 'gpumemd.sock'))
        self.assertIn('usermod -aG', mend)
        self.assertIn('whose the socket is', text)

    def test_no_driver(self):
        checks = self.checks(GPUMEM_CUDA_LIBRARY='/nowhere/libcuda.so.1')
        self.assertEqual(checks['driver']['state'], 'fault')
        self.assertIn('unset GPUMEM_CUDA_LIBRARY', checks['driver']['mend'])
        self.assertNotIn('nvidia-smi', checks['driver']['mend'])

    def test_what_mends_a_driver(self):
        from gpumem import _doctor
        with mock.patch.dict(os.environ):
            os.environ.pop('GPUMEM_CUDA_LIBRARY', None)
            missing = _doctor._mend_driver(is_there=False)
            self.assertIn("install NVIDIA's driver", missing)
            self.assertIn('docs/emulator.md', missing)
            self.assertNotIn('nvidia-smi', missing)
            self.assertIn('nvidia-smi', _doctor._mend_driver(is_there=True))

    def test_a_daemon_that_is_not_installed(self):
        from gpumem import _doctor
        with Found(), mock.patch.object(_doctor._where, 'find',
                                        return_value=('/nowhere/socket', errno.ENOENT)):
            mend = _doctor._check_daemon().mend
        self.assertEqual([word for word in mend.split() if word.endswith('.deb')],
                         ['./build/deb/gpumemd_*.deb'])

    def test_no_library(self):
        checks = self.checks(GPUMEM_LIBRARY='/nowhere/library.so')
        self.assertEqual(checks['library']['state'], 'fault')
        self.assertIn('/nowhere/library.so', checks['library']['text'])

    def test_a_wrong_setting(self):
        checks = self.checks(GPUMEM_CACHE_SIZE='1x')
        self.assertEqual((checks['client']['state'], checks['client']['mend']),
                         ('fault', 'unset GPUMEM_CACHE_SIZE'))

    def test_switched_off(self):
        environment = MACHINE.environment | {'GPUMEM_DISABLE': '1'}
        del environment['GPUMEM_KERNELS']
        said = self.checks_with_numba(environment)
        self.assertEqual(said['settings']['mend'], 'unset GPUMEM_DISABLE')
        self.assertEqual((said['numba-cuda']['state'], said['numba-cuda']['text']),
                         ('note', '1.0: keeps its own allocator: GPUMEM_DISABLE is set'))
        self.assertEqual(said['kernels']['text'],
                         'each process compiles its own: GPUMEM_DISABLE is set')

    @staticmethod
    def checks_with_numba(environment):
        """Where the distribution numba-cuda is installed, by its name at least."""
        with tempfile.TemporaryDirectory() as folder:
            about = pathlib.Path(folder, 'numba_cuda-1.0.dist-info')
            about.mkdir()
            (about / 'METADATA').write_text('Metadata-Version: 2.1\nName: numba-cuda\nVersion: 1.0\n')
            path = f'{world.PACKAGE_FOLDER}{os.pathsep}{folder}'
            ran = MACHINE.run('-m', 'gpumem', 'doctor', '--json',
                              environment=environment | {'PYTHONPATH': path})
        return {check['name']: check for check in json.loads(ran.stdout)['checks']}

    def test_frameworks_that_find_no_driver(self):
        with contextlib.suppress(OSError):
            ctypes.CDLL('libcuda.so.1')
            self.skipTest('every program finds a driver here')
        folder = MACHINE.folder / 'by hand'
        folder.mkdir()
        shutil.copy(os.environ['GPUMEM_CUDA_LIBRARY'], folder)
        library = str(folder / 'libcuda-emu.so')
        environment = MACHINE.environment | {'GPUMEM_CUDA_LIBRARY': library, 'LD_LIBRARY_PATH': ''}
        said = self.checks_with_numba(environment)
        self.assertEqual(said['libcuda.so.1']['state'], 'fault')
        self.assertIn('libcuda.so.1: cannot open', said['libcuda.so.1']['text'])
        self.assertEqual(said['numba-cuda']['state'], 'note')
        mended = subprocess.run(f'{said["libcuda.so.1"]["mend"]} && echo $LD_LIBRARY_PATH', shell=True,
                                env=environment, capture_output=True, text=True, check=True)
        environment['LD_LIBRARY_PATH'] = mended.stdout.strip()
        said = self.checks_with_numba(environment)
        self.assertNotIn('libcuda.so.1', said)
        self.assertEqual(said['numba-cuda']['state'], 'ok', said['numba-cuda'])

    def test_a_framework_that_nothing_serves(self):
        said = self.checks_with_numba(MACHINE.environment | {'GPUMEM_SOCKET': '/nowhere/socket'})
        self.assertEqual((said['numba-cuda']['state'], said['numba-cuda']['text']),
                         ('note', '1.0: keeps its own allocator until what is above is mended'))

    def test_an_emulator_that_is_not_the_daemons(self):
        """The mend of each is the daemon's own value, and then there are no faults."""
        theirs, folder = MACHINE.environment['GPUMEM_EMULATOR'], MACHINE.folder
        for ours, name in (('devices=x', 'driver'),
                           (f'devices=1,bytes=8GiB,dir={folder}/devices', 'driver'),
                           (f'devices=2,bytes=8GiB,dir={folder}/gone/devices', 'driver'),
                           (f'devices=1,bytes=1GiB,dir={folder}/other', 'GPU 0')):
            check = self.checks(GPUMEM_EMULATOR=ours)[name]
            self.assertEqual((check['state'], check['mend']),
                             ('fault', f'export GPUMEM_EMULATOR={theirs}'), ours)
            self.assertIn('GPUMEM_EMULATOR is not as the daemon has it', check['text'])

    def test_an_emulator_without_a_daemon(self):
        check = self.checks(GPUMEM_EMULATOR='devices=x', GPUMEM_SOCKET='/nowhere/socket')['driver']
        self.assertTrue(check['mend'].startswith('unset GPUMEM_EMULATOR'), check)

    def test_kernels_that_are_kept(self):
        self.assertIn('GPUMEM_KERNELS=0', self.checks()['kernels']['text'])
        folder = str(MACHINE.folder / 'kernels')
        check = self.checks(GPUMEM_KERNELS='1', GPUMEM_KERNELS_DIR=folder)['kernels']
        self.assertIn(f'0 kernels, 0 B of 4.0 GiB, in {folder}; see', check['text'])

    def test_each_fault_has_its_command(self):
        for more in ({'GPUMEM_SOCKET': '/nowhere'}, {'GPUMEM_LIBRARY': '/nowhere'},
                     {'GPUMEM_CUDA_LIBRARY': '/nowhere'}):
            for check in self.checks(**more).values():
                self.assertEqual(bool(check['mend']), check['state'] == 'fault', check)

    def test_a_wrong_call(self):
        for arguments, wrong in ((['x'], 'x'), (['--json', 'x'], 'x'), (['--json', '--json'], '--json')):
            ran = MACHINE.run('-m', 'gpumem', 'doctor', *arguments)
            self.assertEqual((ran.returncode, ran.stdout), (2, ''), arguments)
            self.assertIn(f'gpumem doctor: invalid "{wrong}" (expected --json)', ran.stderr)

    def test_a_screen(self):
        ran = MACHINE.run('-m', 'gpumem', 'doctor')
        self.assertLessEqual(len(ran.stdout.splitlines()), 24)
        self.assertEqual(ran.stdout.splitlines()[-1], 'no faults')


class Output(unittest.TestCase):
    """What the commands print, and where they cannot."""

    COMMANDS = (['doctor'], ['doctor', '--json'], ['kernels'], ['--version'], ['--help'], ['run', '--help'],
                ['doctor', '--help'], ['kernels', '--help'], ['torch-extension', '--help'])

    def test_a_full_device(self):
        for arguments in self.COMMANDS:
            for unbuffered in ('', '1'):
                with self.subTest(arguments=arguments, unbuffered=unbuffered), open('/dev/full', 'w') as full:
                    ran = subprocess.run([sys.executable, '-m', 'gpumem', *arguments], stdout=full,
                                         stderr=subprocess.PIPE, text=True, check=False,
                                         env=MACHINE.environment | {'PYTHONUNBUFFERED': unbuffered})
                    self.assertEqual((ran.returncode, ran.stderr), (
                        1, 'gpumem: the output could not be written: No space left on device\n'))

    def test_a_full_device_is_no_fault_of_a_wrong_call(self):
        with open('/dev/full', 'w') as full:
            ran = subprocess.run([sys.executable, '-m', 'gpumem', 'doctor', 'x'], stdout=full,
                                 stderr=subprocess.PIPE, text=True, check=False, env=MACHINE.environment)
        self.assertEqual(ran.returncode, 2)
        self.assertIn('invalid "x"', ran.stderr)

    def test_help_fits_a_screen(self):
        for command in ([], ['run'], ['doctor'], ['kernels'], ['torch-extension']):
            lines = MACHINE.run('-m', 'gpumem', *command, '--help').stdout.splitlines()
            self.assertLessEqual(len(lines), 24, command)
            self.assertLessEqual(max(map(len, lines)), 80, command)


if __name__ == '__main__':
    unittest.main()
