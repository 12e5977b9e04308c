# SPDX-License-Identifier: Apache-2.0
"""python -m gpumem run and its descendants. The frameworks are stubs of a few lines."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import world

MACHINE = world.World()
PLACE = MACHINE.folder / 'programs'

PROGRAM = '''
import os, subprocess, sys
if sys.argv[1:] == ["child"]:
    import cupy
    sys.exit(3)
import cupy
print(__name__, sys.argv[1:], sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
print("numba" in sys.modules, "torch" in sys.modules)
sys.stdout.flush()
ran = subprocess.run([sys.executable, __file__, "child"])
sys.exit(ran.returncode + 4)
'''
CUPY = '''
class cuda:
    class CFunctionAllocator:
        def __init__(self, *arguments):
            self.malloc = arguments
    def set_allocator(f):
        print("cupy: arrays", flush=True)
    def set_pinned_memory_allocator(f):
        print("cupy: pinned", flush=True)
'''
# It goes on at each line that it reads.
OUTLIVES = '''
import ctypes, sys
import gpumem
held, staging = gpumem.empty(1000, device=0), gpumem.pinned(1000)
ctypes.memset(staging.pointer, 7, 1000)
print("holds", flush=True)
sys.stdin.readline()
more = gpumem.empty(1000, device=0)
print("has more of its block", flush=True)
try:
    gpumem.empty(32 << 20, device=0, wait=0)
except gpumem.NoDaemon as error:
    print(error, flush=True)
block = gpumem.empty(32 << 20, device=0, wait=60)
assert ctypes.string_at(staging.pointer, 1000) == bytes([7]) * 1000
print(gpumem.stats(0).requested_bytes, flush=True)
sys.stdin.readline()
del held, more, block
gpumem.flush()
'''
SITE = 'import os\nos.environ["USERS_SITE"] = "ran"\nprint("the user\'s own")\n'


def setUpModule():
    MACHINE.start()
    PLACE.mkdir()
    (PLACE / 'program.py').write_text(PROGRAM)
    (PLACE / 'cupy.py').write_text(CUPY)
    (PLACE / 'imports.py').write_text('import cupy\nprint("goes on")\n')


def tearDownModule():
    MACHINE.stop()


def run(*arguments, program='program.py', **more):
    """`python -m gpumem run` with a variable or two more."""
    environment = MACHINE.environment | {
        'PYTHONPATH': f'{world.PACKAGE_FOLDER}{os.pathsep}{PLACE}'} | more
    return MACHINE.run('-m', 'gpumem', 'run', *arguments, PLACE / program, 'an', 'argument',
                       environment=environment)


SERVED = ['cupy: arrays', 'cupy: pinned']
OF_PROGRAM = ["__main__ ['an', 'argument'] True", 'False False']


class Run(unittest.TestCase):
    """Programs whose frameworks are served."""

    def test_program_and_child_are_served(self):
        ran = run()
        self.assertEqual(ran.stdout.splitlines(), SERVED + OF_PROGRAM + SERVED, ran.stderr)
        self.assertIn('does not tell its current stream', ran.stderr)
        self.assertEqual(ran.returncode, 7)

    def test_verbose(self):
        self.assertIn('gpumem: cupy: arrays and pinned memory', run(GPUMEM_VERBOSE='1').stderr)

    def test_native(self):
        for arguments, more in ((['--native'], {}), ([], {'GPUMEM_DISABLE': '1'})):
            ran = run(*arguments, **more)
            self.assertEqual((ran.stdout.splitlines(), ran.stderr, ran.returncode),
                             (OF_PROGRAM, '', 7))

    def test_a_program_that_imports_the_adapter_first(self):
        (PLACE / 'first.py').write_text('import gpumem.cupy\nprint("imported")\n')
        ran = run(program='first.py', GPUMEM_REQUIRED='1')
        self.assertEqual(ran.stdout.splitlines(), [*SERVED, 'imported'], ran.stderr)
        self.assertEqual(ran.returncode, 0)
        self.assertNotIn('keeps its own', ran.stderr)

    def test_an_adapter_that_cannot_be_imported_after_its_framework(self):
        (PLACE / 'warp').mkdir()
        (PLACE / 'warp' / '__init__.py').write_text('')  # of a version that the adapter does not know
        (PLACE / 'old.py').write_text('try:\n    import gpumem.warp\nexcept Exception:\n    print("not there", flush=True)\n')
        ran = run(program='old.py')
        self.assertEqual((ran.stdout, ran.returncode), ('not there\n', 0))
        self.assertIn('gpumem: warp keeps its own allocator', ran.stderr)
        ran = run(program='old.py', GPUMEM_REQUIRED='1')
        self.assertEqual((ran.stdout, ran.returncode), ('', 125))

    def test_modules(self):
        ran = MACHINE.run('-m', 'gpumem', 'run', '-m', 'program', 'x', cwd=PLACE)
        self.assertEqual(ran.stdout.splitlines()[2], "__main__ ['x'] True", ran.stderr)

    def test_no_daemon(self):
        ran = run(GPUMEM_SOCKET='/nowhere/gpumemd.sock')
        self.assertEqual((ran.stdout.splitlines(), ran.returncode), (OF_PROGRAM, 7))
        self.assertEqual(len(ran.stderr.splitlines()), 1)
        self.assertIn('/nowhere/gpumemd.sock', ran.stderr)

    def test_no_daemon_where_it_is_required(self):
        ran = run(GPUMEM_SOCKET='/nowhere/gpumemd.sock', GPUMEM_REQUIRED='1')
        self.assertEqual((ran.stdout, ran.returncode), ('', 125))

    def test_a_framework_that_cannot_be_served(self):
        (PLACE / 'bad').mkdir()
        (PLACE / 'bad' / 'cupy.py').write_text('')
        (PLACE / 'bad' / 'program.py').write_text('import cupy\nprint("goes on")\n')
        ran = run(program='bad/program.py')
        self.assertEqual((ran.stdout, ran.returncode), ('goes on\n', 0))
        self.assertIn('gpumem: cupy keeps its own allocator: ', ran.stderr)
        self.assertEqual(run(program='bad/program.py', GPUMEM_REQUIRED='1').returncode, 125)

    def test_no_pool_for_a_device(self):
        """The daemon serves another machine than the driver has, or there is no driver."""
        other = f'devices=1,bytes=1GiB,dir={MACHINE.folder}/other'
        for more, why in (({'GPUMEM_EMULATOR': other}, 'gpumemd has no pool for any CUDA device'),
                          ({'GPUMEM_EMULATOR': 'devices=x'}, 'no CUDA driver'),
                          ({'CUDA_VISIBLE_DEVICES': ''}, 'no CUDA-capable device'),
                          ({'GPUMEM_CUDA_LIBRARY': '/nowhere.so'}, 'no CUDA driver')):
            with self.subTest(**more):
                ran = run(program='imports.py', GPUMEM_VERBOSE='1', **more)
                self.assertEqual((ran.stdout, ran.returncode), ('goes on\n', 0))
                said = [line for line in ran.stderr.splitlines() if line.startswith('gpumem: ')]
                self.assertEqual(len(said), 1, ran.stderr)
                self.assertIn('gpumem: cupy keeps its own allocator: ', said[0])
                self.assertIn(why, said[0])
                ran = run(program='imports.py', GPUMEM_REQUIRED='1', **more)
                self.assertEqual((ran.stdout, ran.returncode), ('', 125))

    def test_a_pool_for_one_device_is_enough(self):
        machine = world.World()
        self.addCleanup(machine.stop)
        machine.environment['CUDA_VISIBLE_DEVICES'] = '1'
        machine.start()
        del machine.environment['CUDA_VISIBLE_DEVICES']
        ran = machine.run('-m', 'gpumem', 'run', PLACE / 'imports.py')
        self.assertEqual(ran.stdout.splitlines(), [*SERVED, 'goes on'], ran.stderr)

    def test_required_in_a_thread(self):
        (PLACE / 'worse').mkdir()
        (PLACE / 'worse' / 'cupy.py').write_text('')
        (PLACE / 'worse' / 'program.py').write_text(
            'import threading\ndef f():\n    import cupy\n'
            't = threading.Thread(target=f)\nt.start()\nt.join()\nprint("went on")\n')
        ran = run(program='worse/program.py', GPUMEM_REQUIRED='1')
        self.assertEqual((ran.stdout, ran.returncode), ('', 125))

    def test_the_users_sitecustomize_runs_once(self):
        folder = PLACE / 'site'
        folder.mkdir()
        (folder / 'sitecustomize.py').write_text(SITE)
        (folder / 'show.py').write_text(
            'import os, subprocess, sys\nprint(os.environ["USERS_SITE"], flush=True)\n'
            'if len(sys.argv) > 1:\n    subprocess.run([sys.executable, __file__])\n')
        ran = run(program='site/show.py',
                  PYTHONPATH=f'{world.PACKAGE_FOLDER}{os.pathsep}{folder}')
        self.assertEqual(ran.stdout.splitlines(), ["the user's own", 'ran'] * 2, ran.stderr)

    def test_descendants_without_the_package(self):
        copy = PLACE / 'elsewhere'
        copy.mkdir()
        (copy / 'gpumem').symlink_to(world.PACKAGE_FOLDER / 'gpumem')
        program = PLACE / 'without.py'
        program.write_text(
            'import os, subprocess, sys\n'
            'paths = os.environ["PYTHONPATH"].split(os.pathsep)\n'
            'os.environ["PYTHONPATH"] = os.pathsep.join(p for p in paths if "_site" in p)\n'
            'folder = os.path.dirname(__file__)\n'
            'subprocess.run([sys.executable, "-c", "import cupy"], cwd=folder)\n')
        ran = run(program='without.py', PYTHONPATH=str(copy))
        self.assertEqual(ran.stdout.splitlines(), SERVED, ran.stderr)

    def test_wrong_calls(self):
        for arguments in (['run'], ['run', '--nativ', 'x.py'], ['run', '-m'], ['ran'], []):
            ran = MACHINE.run('-m', 'gpumem', *arguments)
            self.assertEqual((ran.returncode, ran.stdout), (2, ''), arguments)

    def test_a_mistyped_command(self):
        for word, hint in (('rnu', 'did you mean "run"?'), ('docter', 'did you mean "doctor"?'),
                           ('dance', 'see python -m gpumem --help')):
            ran = MACHINE.run('-m', 'gpumem', word)
            self.assertEqual((ran.returncode, ran.stderr),
                             (2, f'gpumem: unknown command "{word}"; {hint}\n'))

    def test_a_reader_that_has_ended(self):
        for arguments in (['doctor'], ['--help']):
            read, write = os.pipe()
            os.close(read)
            with os.fdopen(write, 'wb') as ended:
                ran = subprocess.run([sys.executable, '-m', 'gpumem', *arguments], stdout=ended,
                                     stderr=subprocess.PIPE, env=MACHINE.environment, check=False)
            self.assertEqual((ran.returncode, ran.stderr), (-signal.SIGPIPE, b''))

    def test_help_fits_a_screen(self):
        for arguments in ([], ['run'], ['doctor'], ['kernels']):
            ran = MACHINE.run('-m', 'gpumem', *arguments, '--help')
            lines = ran.stdout.splitlines()
            self.assertEqual(ran.returncode, 0)
            self.assertLessEqual(len(lines), 24, arguments)
            self.assertLessEqual(max(map(len, lines)), 100, arguments)


ENDS = {
    'raised.py': 'def f():\n    {}["a"]\ntry:\n    f()\nexcept KeyError as error:\n    raise ValueError("x") from error\n',
    'syntax.py': 'x = (\n',
    'imports.py': 'import not_there\n',
    'broken.py': 'import cupy\n',
    'interrupted.py': 'raise KeyboardInterrupt\n',
    'exits.py': 'raise SystemExit("bye")\n',
    'hook.py': 'import sys\ndef hook(kind, value, trace):\n    print(kind, value, trace.tb_frame.f_code.co_filename)\n'
               '    sys.exit(9)\nsys.excepthook = hook\n1 / 0\n',
    'last.py': 'import atexit, sys, traceback\n@atexit.register\ndef f():\n    traceback.print_last()\n1 / 0\n',
}


class End(unittest.TestCase):
    """A program ends as under Python alone: what it says, and its exit status."""

    @classmethod
    def setUpClass(cls):
        cls.folder = PLACE / 'ends'
        cls.folder.mkdir()
        for name, text in ENDS.items():
            (cls.folder / name).write_text(text)
        (cls.folder / 'cupy.py').write_text('1 / 0\n')

    def assert_as_python(self, *program, n_left_out=0):
        """But for the first frames, which Python's own -m shows."""
        alone = MACHINE.run(*program, cwd=self.folder)
        ran = MACHINE.run('-m', 'gpumem', 'run', *program, cwd=self.folder)
        lines = [line for line in alone.stderr.splitlines() if '"<frozen runpy>"' not in line]
        self.assertEqual(ran.stderr.splitlines(), lines)
        self.assertEqual((ran.stdout, ran.returncode), (alone.stdout, alone.returncode))
        self.assertEqual(len(alone.stderr.splitlines()) - len(lines), n_left_out)

    def test_scripts(self):
        for name in ENDS:
            with self.subTest(name):
                self.assert_as_python(self.folder / name)

    def test_modules(self):
        for name, n_left_out in (('raised', 2), ('interrupted', 2), ('not_there', 0)):
            with self.subTest(name):
                self.assert_as_python('-m', name, n_left_out=n_left_out)

    def test_what_cannot_be_opened(self):
        self.assert_as_python('nosuch.py')
        self.assert_as_python('raised.py/nosuch.py')
        self.assertEqual(MACHINE.run('-m', 'gpumem', 'run', 'nosuch.py').returncode, 2)

    def test_folders(self):
        (self.folder / 'program').mkdir()
        self.assert_as_python(self.folder / 'program')
        (self.folder / 'program' / '__main__.py').write_text('import sys\nprint(sys.argv)\n')
        self.assert_as_python(self.folder / 'program')

    def test_a_deep_recursion(self):
        (self.folder / 'deep.py').write_text('def f():\n    f()\nf()\n')
        ran = MACHINE.run('-m', 'gpumem', 'run', self.folder / 'deep.py')
        self.assertTrue(ran.stderr.startswith(
            f'Traceback (most recent call last):\n  File "{self.folder}/deep.py", line 3'), ran.stderr)
        self.assertIn('RecursionError', ran.stderr.splitlines()[-1])


class Lost(unittest.TestCase):
    """A daemon that ends under a program."""

    def test_a_program_outlives_its_daemon(self):
        (PLACE / 'outlives.py').write_text(OUTLIVES)
        machine = world.World().start()
        self.addCleanup(machine.stop)
        command = [sys.executable, '-m', 'gpumem', 'run', PLACE / 'outlives.py']
        with subprocess.Popen(command, env=machine.environment, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
            def hears():
                return program.stdout.readline().rstrip('\n')
            self.assertEqual(hears(), 'holds')
            machine.kill()
            program.stdin.write('\n')
            program.stdin.flush()
            self.assertEqual(hears(), 'has more of its block')
            self.assertIn('is gpumemd running', hears())
            machine.start()
            self.assertEqual(hears(), str(2000 + (32 << 20)))
            known = machine.ctl('clients')['clients']
            self.assertIn((program.pid, 'outlives.py'),
                          [(client['pid'], client['program']) for client in known])
            program.stdin.write('\n')
        self.assertEqual(program.returncode, 0)


class FullQueue(unittest.TestCase):
    """gpumemd has not accepted those who came before."""

    def test_a_program_waits_for_its_place(self):
        from gpumem import _where
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            path = f'{folder}/socket'
            server.bind(path)
            server.listen(0)
            first = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            first.connect(path)
            accepting = threading.Timer(0.2, lambda: [made.close() for made, _ in (server.accept(), server.accept())])
            accepting.start()
            self.assertEqual(_where.reach(path), 0)
            accepting.join()
            first.close()


class Library(unittest.TestCase):
    """Which file it is."""

    def test_an_old_library_is_refused(self):
        program = ('import gpumem\nfrom gpumem import _library\n'
                   '_library.__version__ = "0.9.0"\ngpumem.version()\n')
        ran = MACHINE.run('-c', program)
        self.assertIn('needs 0.9 or newer, below 1', ran.stderr)

    def test_a_library_that_is_another(self):
        ran = MACHINE.run('-c', 'import gpumem\ngpumem.connect()\n',
                          environment=MACHINE.environment | {'GPUMEM_LIBRARY': 'libm.so.6'})
        self.assertIn('libm.so.6 is version 0.0', ran.stderr)

    def test_the_packages_version_is_the_projects(self):
        build = pathlib.Path(__file__).resolve().parents[2] / 'meson.build'
        from gpumem import __version__
        self.assertIn(f"version: '{__version__}'", build.read_text())

    def test_a_start_imports_nothing_beside(self):
        """Every program that imports gpumem would pay for what they cost. Two cost nothing."""
        ran = MACHINE.run('-c', 'import ctypes, sys\nbefore = set(sys.modules)\nimport gpumem\n'
                          'gpumem.connect()\nbuffer = gpumem.empty((2, 5), "f4", device=0)\n'
                          'print({name.partition(".")[0] for name in set(sys.modules) - before}'
                          ' - {"gpumem", "__future__", "errno"})')
        self.assertEqual(ran.stdout, 'set()\n', ran.stderr)

    def test_descendants_start_with_little_more(self):
        site = world.PACKAGE_FOLDER / 'gpumem' / '_site'

        def modules(**more):
            ran = MACHINE.run('-c', 'import sys\nprint(*sys.modules)',
                              environment=MACHINE.environment | more)
            return set(ran.stdout.split())
        added = modules(PYTHONPATH=str(site)) - modules()
        self.assertIn('_gpumem_hook', added)
        self.assertEqual(added & {'pathlib', 'threading', 'typing', 're', 'gpumem'}, set())

    def test_what_is_imported_later_is_there(self):
        ran = MACHINE.run('-c', 'import gpumem\n'
                          'missing = [n for n in gpumem.__all__ if not hasattr(gpumem, n)]\n'
                          'print(missing, set(gpumem.__all__) <= set(dir(gpumem)))')
        self.assertEqual(ran.stdout, '[] True\n', ran.stderr)


if __name__ == '__main__':
    unittest.main()
