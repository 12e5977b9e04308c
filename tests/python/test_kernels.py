# SPDX-License-Identifier: Apache-2.0
"""The store of compiled kernels: one process compiles, damage is found, faults harm nothing.

The compiler is a stand-in that notes each call. What stands in for frameworks' own compilers is in
test_kernels_frameworks.py.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import frameworks
import world

# compiler.py KERNEL [PART...]: waits for a line, then needs the kernel; prints what it got.
COMPILER = '''
import os, sys, time
from gpumem.kernels import _flight, _store

name, *parts = sys.argv[1:]
for setting in ("WAIT_SECONDS", "SAY_SECONDS"):
    if setting in os.environ:
        setattr(_flight, setting, float(os.environ[setting]))
key = _store.key(name, *parts)
print("ready", flush=True)
sys.stdin.readline()
with _flight.Flight(_store.store(), key, name) as flight:
    if flight.entry is None:
        with open(os.environ["COMPILED"], "a") as log:
            log.write(f"{os.getpid()} {name}\\n")
        print("compiles", flush=True)
        if "HOLD" in os.environ:
            sys.stdin.readline()
        if "FAIL" in os.environ:
            raise SystemExit("the compiler failed")
        code = " ".join([name, *parts]).encode() * int(os.environ.get("TIMES", "1"))
        flight.save(_store.About("stand-in", name), {"cubin": code})
    else:
        code = flight.entry.files["cubin"]
print(code[:60].decode(), flush=True)
'''


# later.py FOLDER PATH...: looks into a folder that another user makes then.
LATER = """
import os, pathlib, sys
from gpumem.kernels import _store

folder, key = pathlib.Path(sys.argv[1]), _store.key("fused_adam")
victim, other = (_store.Store(folder, [], 1 << 20) for _ in range(2))
print(victim.load(key))
print(other.save(key, _store.About("stand-in", "fused_adam"), {"cubin": b"evil"}))
for path in sys.argv[2:]:
    os.chown(folder / path.replace("KEY", key), 65534, 65534)
print(victim.load(key), victim.has(key), victim.load(key))
"""


class Kernels(unittest.TestCase):
    """A folder, and processes that need kernels."""

    @classmethod
    def setUpClass(cls):
        cls.python = frameworks.python()

    def setUp(self):
        roomy = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        self.place = pathlib.Path(tempfile.mkdtemp(prefix='gpumem-kernels-', dir=roomy))
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.program = self.place / 'train.py'
        self.program.write_text(COMPILER)
        self.store = self.place / 'store'
        self.log = self.place / 'log'
        self.log.write_text('')
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith('GPUMEM_')}
        self.environment |= {
            'GPUMEM_KERNELS_DIR': str(self.store), 'COMPILED': str(self.log),
            'PYTHONPATH': str(world.PACKAGE_FOLDER), 'PYTHONDONTWRITEBYTECODE': '1'}

    def begin(self, *arguments, **more):
        """A process that is ready to need a kernel."""
        process = subprocess.Popen(
            [more.pop('python', self.python), self.program, *arguments], text=True,
            env=self.environment | more.pop('environment', {}), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), 'ready\n', process.stderr)
        return process

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()

    def go(self, process):
        process.stdin.write('\n')
        process.stdin.flush()

    def finish(self, process):
        """What it printed, without "compiles", and what it complained of."""
        out, err = process.communicate('\n\n', timeout=world.SECONDS)
        return out.replace('compiles\n', '').strip(), err

    def need(self, *arguments, **more):
        return self.finish(self.begin(*arguments, **more))

    def compiled(self):
        return self.log.read_text().splitlines()

    def entries(self):
        return [path for path in (self.store / 'entries').iterdir()]


class Together(Kernels):
    """Processes that need one kernel at one time."""

    def begin_compiling(self, **environment):
        """It compiles until it is told to go on."""
        process = self.begin('fused_adam', environment={'HOLD': '1', **environment})
        self.go(process)
        self.assertEqual(process.stdout.readline(), 'compiles\n')
        return process

    def begin_waiting(self, **environment):
        process = self.begin('fused_adam', environment={'SAY_SECONDS': '0', **environment})
        self.go(process)
        self.assertIn('waiting', process.stderr.readline())
        return process

    def test_eight_compile_once(self):
        crowd = [self.begin('fused_adam') for _ in range(8)]
        for process in crowd:
            self.go(process)
        for process in crowd:
            self.assertEqual(self.finish(process)[0], 'fused_adam')
        self.assertEqual(len(self.compiled()), 1)
        self.assertEqual(len(self.entries()), 1)

    def test_they_say_for_what_they_wait(self):
        first = self.begin_compiling()
        second = self.begin('fused_adam', environment={'SAY_SECONDS': '0.2'})
        self.go(second)
        self.assertRegex(second.stderr.readline(),
                         rf'^gpumem: waiting for pid {first.pid} \(train\.py\) to compile '
                         r'fused_adam, \d+ s$')
        self.finish(first)
        self.assertEqual(self.finish(second), ('fused_adam', ''))
        self.assertEqual(len(self.compiled()), 1)

    def test_they_wait_so_long_only(self):
        first = self.begin_compiling()
        out, err = self.need('fused_adam', environment={'WAIT_SECONDS': '0.3'})
        self.assertEqual(out, 'fused_adam')
        self.assertIn(f'pid {first.pid} (train.py) has not compiled fused_adam in 0 s: this process '
                      'compiles it too', err)
        self.assertEqual(self.finish(first), ('fused_adam', ''))
        self.assertEqual((len(self.compiled()), len(self.entries())), (2, 1))

    def test_a_compiler_that_is_killed(self):
        first = self.begin_compiling()
        second = self.begin_waiting()
        first.send_signal(signal.SIGKILL)
        self.assertEqual(self.finish(second)[0], 'fused_adam')
        self.assertEqual((len(self.compiled()), len(self.entries())), (2, 1))

    def test_a_compiler_that_fails_has_all_go_on(self):
        first = self.begin_compiling(FAIL='1')
        # Two that hold on: neither waits for the other.
        others = [self.begin_waiting(HOLD='1') for _ in range(2)]
        self.go(first)
        for process in others:
            self.assertEqual(process.stdout.readline(), 'compiles\n')
        for process in others:
            self.assertEqual(self.finish(process)[0], 'fused_adam')

    def test_a_child_does_not_release_its_parents_lock(self):
        self.program.write_text(
            COMPILER.replace('        print("compiles"', '        if not os.fork():\n'
                             '            flight.end()\n            del flight\n'
                             '            import gc; gc.collect(); os._exit(0)\n'
                             '        os.wait()\n        print("compiles"', 1))
        first = self.begin_compiling()
        second = self.begin_waiting()
        self.finish(first)
        self.finish(second)
        self.assertEqual(len(self.compiled()), 1)

    def test_a_process_holds_one_lock(self):
        ran = subprocess.run([self.python, '-c', '''
import fcntl, os, threading
from gpumem.kernels import _flight, _store
store = _store.store()
def is_free(key):
    with open(store.lock_path(key), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
first = _flight.Flight(store, "1" * 64, "first")
second = []
thread = threading.Thread(target=lambda: second.append(_flight.Flight(store, "2" * 64, "second")))
thread.start()
thread.join(30)
print(is_free("1" * 64), is_free("2" * 64), second[0].entry)
second[0].save(_store.About("stand-in", "second"), {"cubin": b"2"})
second[0].end()
print(is_free("1" * 64), store.load("2" * 64).files)
first.end()
third = _flight.Flight(store, "3" * 64, "third")
print(is_free("1" * 64), is_free("3" * 64))
'''], env=self.environment, capture_output=True, text=True, check=False, timeout=world.SECONDS)
        self.assertEqual(ran.stdout.splitlines(), [
            'False True None', "False {'cubin': b'2'}", 'True False'], ran.stderr)

    def test_without_the_library_of_locks(self):
        (self.place / 'without').mkdir()
        (self.place / 'without' / 'filelock.py').write_text('raise ImportError\n')
        path = f'{world.PACKAGE_FOLDER}:{self.place}/without'
        for _ in range(2):
            out, err = self.need('fused_adam', environment={'PYTHONPATH': path})
        self.assertEqual((out, err, len(self.compiled())), ('fused_adam', '', 1))
        _, err = self.need('other', environment={'PYTHONPATH': path})
        self.assertEqual(err.count('filelock 3.12 or newer is not installed'), 1)

    def test_with_an_old_library_of_locks(self):
        """Debian 12 has 3.9."""
        (self.place / 'old').mkdir()
        (self.place / 'old' / 'filelock.py').write_text(
            'class FileLock:\n    def __init__(self, lock_file, timeout=-1):\n        pass\n')
        path = f'{world.PACKAGE_FOLDER}:{self.place}/old'
        out, err = self.need('fused_adam', environment={'PYTHONPATH': path})
        self.assertEqual((out, len(self.compiled())), ('fused_adam', 1))
        self.assertEqual(err.count('filelock 3.12 or newer is not installed'), 1)


class Faults(Kernels):
    """What is wrong is said once, and what is compiled is right."""

    def test_two_versions_at_once(self):
        crowd = [self.begin('fused_adam', version) for version in '1212']
        for process in crowd:
            self.go(process)
        said = [self.finish(process)[0] for process in crowd]
        self.assertEqual(said, ['fused_adam 1', 'fused_adam 2'] * 2)
        self.assertEqual((len(self.compiled()), len(self.entries())), (2, 2))

    def test_headers_and_parts_of_any_length(self):
        """Also where a file system gives few bytes at a time."""
        ran = subprocess.run([self.python, '-c', '''
import os
from gpumem.kernels import _store
store = _store.store()
files = {"cubin": os.urandom(30000), "empty": b"", "json": b"x"}
real = os.pread
for few in (False, True):
    if few:
        os.pread = lambda fd, n, at: real(fd, min(n, 1000), at)
    for length in (1, 7900, 8000, 8060, 8100, 8192, 9000, 100000):
        about = _store.About("triton", "n" * length)
        assert store.save("k", about, files)
        assert store.load("k") == _store.Entry(about, files), (few, length)
print("right")
'''], env=self.environment, capture_output=True, text=True, check=False, timeout=world.SECONDS)
        self.assertEqual((ran.stdout, ran.stderr), ('right\n', ''))

    def test_one_bit(self):
        """Each byte of a kernel's file in its turn."""
        self.need('fused_adam')
        [path] = self.entries()
        sound = path.read_bytes()
        ran = subprocess.run([self.python, '-c', '''
import pathlib, sys
from gpumem.kernels import _store
path = pathlib.Path(sys.argv[1])
sound = path.read_bytes()
store = _store.store()
assert store.load(path.name).files == {"cubin": b"fused_adam"}
for place in range(len(sound)):
    path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1:])
    assert store.load(path.name) is None, place
    assert not path.exists(), place
for length in range(len(sound)):
    path.write_bytes(sound[:length])
    assert store.load(path.name) is None, length
path.write_bytes(sound + b"x")
assert store.load(path.name) is None
path.write_bytes(sound)
path.rename(path.with_name("0" * 64))
assert store.load("0" * 64) is None
print("right")
''', path], env=self.environment, capture_output=True, text=True, check=False, timeout=world.SECONDS)
        self.assertEqual(ran.stdout, 'right\n', ran.stderr[-2000:])
        path.write_bytes(sound[:-1] + b'\0')
        out, err = self.need('fused_adam')
        self.assertEqual((out, len(self.compiled())), ('fused_adam', 2))
        self.assertEqual(err, f'gpumem: kernel {path} is damaged (cubin); it is deleted and '
                         'compiled again\n')
        self.assertEqual(self.need('fused_adam'), ('fused_adam', ''))
        self.assertEqual(len(self.compiled()), 2)

    def test_files_that_may_not_be_that_long(self):
        """As on a full disk: a write that fails in the middle."""
        self.program.write_text('import resource\n'
                                'resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n' + COMPILER)
        out, err = self.need('fused_adam', environment={'TIMES': '1000'})
        self.assertEqual(out, ('fused_adam' * 6)[:60])
        self.assertEqual(err, 'gpumem: kernels are compiled without the store: '
                         f'{self.store}: File too large\n')
        self.assertEqual(self.entries(), [])

    def test_a_full_disk(self):
        mounted = self.place / 'small'
        mounted.mkdir()
        ran = subprocess.run(['unshare', '--mount', '--map-root-user', 'sh', '-c', f'''
mount -t tmpfs -o size=64k,mode=700 none {mounted} || exit 99
head -c 60000 /dev/zero >{mounted}/filler
mkdir {mounted}/store && cd / && echo | "$@"; ls -A {mounted}/store/entries
''', 'sh', self.python, self.program, 'fused_adam'], capture_output=True, text=True, check=False,
                             env=self.environment | {'GPUMEM_KERNELS_DIR': f'{mounted}/store',
                                                     'TIMES': '10000'}, timeout=world.SECONDS)
        if ran.returncode in (1, 99) and 'ready' not in ran.stdout:
            self.skipTest(f'no file system can be mounted here: {ran.stderr}')
        self.assertEqual(ran.stdout.splitlines(), ['ready', 'compiles', ('fused_adam' * 6)[:60]],
                         ran.stderr)
        self.assertEqual(ran.stderr, 'gpumem: kernels are compiled without the store: '
                         f'{mounted}/store: No space left on device\n')

    def test_on_a_full_disk_none_waits_for_the_next(self):
        more = {'TIMES': '1000', 'HOLD': '1', 'SAY_SECONDS': '0'}
        self.program.write_text('import resource\n'
                                'resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n' + COMPILER)
        crowd = [self.begin('fused_adam', environment=more) for _ in range(3)]
        self.go(crowd[0])
        self.assertEqual(crowd[0].stdout.readline(), 'compiles\n')
        for process in crowd[1:]:
            self.go(process)
            self.assertIn('waiting', process.stderr.readline())
        self.go(crowd[0])
        for process in crowd[1:]:
            self.assertEqual(process.stdout.readline(), 'compiles\n')

    def as_another(self):
        """The program is not root, since no rights stop root. It imports before: root's own Python
        may lie where others cannot go."""
        self.place.chmod(0o755)
        self.log.chmod(0o666)
        if os.geteuid() == 0:
            self.program.write_text(COMPILER.replace('name, *parts', 'import filelock\n'
                                    'os.setgroups([]), os.setgid(65534), os.setuid(65534)\n'
                                    'name, *parts', 1))

    def test_a_folder_without_rights(self):
        self.as_another()
        self.store.mkdir(mode=0o500)
        out, err = self.need('fused_adam')
        self.assertEqual(out, 'fused_adam')
        self.assertRegex(err, r'\Agpumem: kernels are compiled without the store: '
                         rf'{self.store}: (it belongs to user 0|Permission denied)\n\Z')

    def test_a_folder_in_one_without_rights(self):
        self.as_another()
        self.place.chmod(0o555)
        out, err = self.need('fused_adam')
        self.assertEqual((out, err), ('fused_adam', 'gpumem: kernels are compiled without the store:'
                                      f' {self.store}: Permission denied\n'))

    def test_a_file_in_its_place(self):
        self.store.write_text('')
        out, err = self.need('fused_adam')
        self.assertEqual((out, err), ('fused_adam', 'gpumem: kernels are compiled without the store:'
                                      f' {self.store}: it is not a folder\n'))

    def test_a_folder_that_others_may_write_to(self):
        self.need('fused_adam')
        self.store.chmod(0o777)
        out, err = self.need('fused_adam')
        self.assertEqual((out, len(self.compiled())), ('fused_adam', 2))
        self.assertIn('other users may write to it (mode 777)', err)

    @unittest.skipIf(os.geteuid(), 'needs root, for files of another user')
    def test_what_another_user_makes_later(self):
        """The folder was not there at the first look. Nothing of another's in it is run."""
        for paths, rest in ((('', 'entries', 'entries/KEY'), 'None False None'),
                            (('entries/KEY',), 'None True None')):
            with self.subTest(paths):
                shutil.rmtree(self.store, ignore_errors=True)
                ran = subprocess.run([self.python, '-c', LATER, self.store, *paths], text=True,
                                     env=self.environment, capture_output=True, check=False,
                                     timeout=world.SECONDS)
                self.assertEqual(ran.stdout.splitlines(), ['None', 'True', rest], ran.stderr)
                self.assertEqual(ran.stderr.count('it belongs to user 65534'), 1)

    def test_rights_of_what_is_made(self):
        self.need('fused_adam')
        for folder in (self.store, self.store / 'entries', self.store / 'locks'):
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            for path in folder.iterdir():
                self.assertEqual(path.stat().st_mode & 0o077 & ~0o044, 0, path)
        self.assertEqual(self.entries()[0].stat().st_mode & 0o777, 0o600)

    def test_switched_off(self):
        ran = subprocess.run([self.python, '-c', 'from gpumem.kernels import _store\n'
                              'print(_store.store())'], capture_output=True, text=True, check=True,
                             env=self.environment | {'GPUMEM_KERNELS': '0'})
        self.assertEqual(ran.stdout, 'None\n')


class Folders(Kernels):
    """The budget, the lower folders, and the command."""

    def command(self, *arguments):
        return subprocess.run([sys.executable, '-m', 'gpumem', 'kernels', *arguments],
                              env=self.environment, capture_output=True, text=True, check=False)

    def names(self):
        return {kernel['name'] for kernel in json.loads(self.command('--json').stdout)['kernels']}

    def test_the_least_recently_used_go_first(self):
        more = {'TIMES': '1000', 'GPUMEM_KERNELS_SIZE': '20KiB'}  # three of some 6 KB
        for name in ('kernA', 'kernB', 'kernC'):
            self.need(name, environment=more)
        for age, name in ((300, 'kernB'), (200, 'kernA'), (100, 'kernC')):
            for listed in json.loads(self.command('--json').stdout)['kernels']:
                if listed['name'] == name:
                    path = self.store / 'entries' / listed['key']
                    os.utime(path, (listed['used'] - age, listed['used'] - age))
        self.need('kernB', environment=more)  # used now, so kernA is the oldest
        self.need('kernD', environment=more)
        self.assertEqual(self.names(), {'kernB', 'kernC', 'kernD'})
        self.assertEqual(len(self.compiled()), 4)

    def test_one_that_is_too_large(self):
        out, err = self.need('huge', environment={'TIMES': '9000', 'GPUMEM_KERNELS_SIZE': '20KiB'})
        self.assertEqual(out[:4], 'huge')
        self.assertIn('kernel huge has 35 KiB, and the store may hold 20 KiB', err)
        self.assertEqual(self.entries(), [])

    def test_a_size_that_is_wrong(self):
        _, err = self.need('fused_adam', environment={'GPUMEM_KERNELS_SIZE': '4 gigs'})
        self.assertIn('invalid GPUMEM_KERNELS_SIZE=4 gigs (expected a size such as 512MiB', err)

    def test_what_killed_processes_left(self):
        self.need('fused_adam')
        old = [self.store / 'entries' / '.tmp-1-0-aa', self.store / 'locks' / f'{"a" * 64}.lock']
        young = self.store / 'entries' / '.tmp-1-0-bb'
        for path in (*old, young):
            path.write_text('')
        for path in old:
            os.utime(path, (1, 1))
        self.need('other')
        self.assertEqual([path.exists() for path in (*old, young)], [False, False, True])

    def test_a_lower_folder(self):
        self.need('fused_adam')
        lower = self.place / 'image'
        self.store.rename(lower)
        more = {'GPUMEM_KERNELS_LOWER': f'/nowhere:{lower}'}
        out, err = self.need('fused_adam', environment=more)
        self.assertEqual((out, len(self.compiled())), ('fused_adam', 1))
        self.assertEqual(err, 'gpumem: kernels of /nowhere are not used: No such file or directory\n')
        self.assertFalse(self.store.exists())
        [path] = (lower / 'entries').iterdir()
        path.write_bytes(path.read_bytes()[:-1])
        more = {'GPUMEM_KERNELS_LOWER': str(lower)}
        out, err = self.need('fused_adam', environment=more)
        self.assertEqual((out, len(self.compiled())), ('fused_adam', 2))
        self.assertEqual(err, f'gpumem: kernel {path} is damaged (its length); it is not used\n')
        self.assertTrue(path.exists())
        (lower / 'entries').chmod(0o777)
        out, err = self.need('third', environment=more)
        self.assertIn('are not used: other users may write to it', err)

    def test_the_list_lines_up(self):
        for name in ('fused_adam', 'k', 'name' * 30):
            self.need(name, environment={'TIMES': str(40 * len(name))})
        *lines, last = self.command().stdout.splitlines()
        self.assertEqual(lines[0].split(),
                         ['framework', 'version', 'kernel', 'target', 'size', 'used', 'compiled'])
        ends = {len(line) for line in lines}
        self.assertEqual(len(ends), 1, lines)
        self.assertLessEqual(max(ends), 120)
        self.assertRegex(last, rf'^3 kernels, \d+ KiB of 4\.0 GiB, in {self.store}$')
        self.assertTrue(all(re.search(r'\d (B|KiB)  +\d+ s  +\d+ s$', line) for line in lines[1:]))

    def test_clear(self):
        for name in ('one', 'two'):
            self.need(name)
        [first, second] = self.entries()
        os.utime(first, (1, 1))
        self.assertEqual(self.command('clear', 'triton').stdout, 'deleted 0 kernels, 0 B\n')
        self.assertRegex(self.command('clear', '--unused-for', '3').stdout,
                         r'^deleted 1 kernel, \d+ B\n$')
        self.assertEqual(self.entries(), [second])
        self.assertRegex(self.command('clear').stdout, r'^deleted 1 kernel, \d+ B\n$')
        self.assertEqual(self.command().stdout, f'0 kernels, 0 B of 4.0 GiB, in {self.store}\n')

    def test_wrong_calls(self):
        for arguments in (['x'], ['--json', 'x'], ['clear', 'x'], ['clear', '--unused-for'],
                          ['clear', '--unused-for', 'x'], ['clear', 'numba', 'cupy']):
            ran = self.command(*arguments)
            self.assertEqual((ran.returncode, ran.stdout), (2, ''), arguments)
            self.assertIn('see --help', ran.stderr)
        self.assertIn('invalid "--unused-for" (expected --json or clear)',
                      self.command('--unused-for', '3').stderr)
        said = self.command('--help').stdout.splitlines()
        self.assertLessEqual(len(said), 24)
        self.assertLessEqual(max(map(len, said)), 100)

    def test_a_damaged_file_is_listed(self):
        self.need('fused_adam')
        self.entries()[0].write_text('x')
        self.assertIn('damaged', self.command().stdout)


class Keys(unittest.TestCase):
    """What tells kernels apart."""

    def test_what_a_source_includes(self):
        from gpumem.kernels import _includes
        text = ('#include <a>\n# include "b"\n/* c */ #include <c>\n#/**/include <d>\n'
                '%:include "e"\n#inc\\\nlude <f>\n#if __has_include(<g>)\n#include_next <h>\n'
                '#define include_none <no>\n')
        self.assertEqual([name for name, _ in _includes.names(text)], list('abcdefgh'))
        self.assertTrue(_includes.includes_none('#define X\nint include; // <a>\n'))
        for odd in ('#include NAME\n', '#if __has_include(NAME)\n'):
            with self.assertRaises(_includes.Unknown):
                list(_includes.names(odd))
        self.assertEqual(_includes.split_options(
            ['-Ia', '-I', 'b', '--include-path=c', '--pre-include=d', '-DI', '--std=c++17']),
            (['a', 'b', 'c'], ['d'], ['-DI', '--std=c++17']))
        with self.assertRaises(_includes.Unknown):
            _includes.split_options(['--options-file=x'])

    def test_a_header_that_comes_later(self):
        """It stands before the one that was read."""
        from gpumem.kernels import _includes
        with tempfile.TemporaryDirectory() as place:
            first, second = pathlib.Path(place, 'first'), pathlib.Path(place, 'second')
            first.mkdir()
            second.mkdir()
            (second / 'a.h').write_text('int a;')

            def digest():
                reader = _includes.Reader([str(first), str(second)], {})
                reader.read('#include <a.h>\n#if __has_include(<b.h>)\n')
                return reader.digest()
            digests = [digest(), digest()]
            (first / 'b.h').write_text('')
            digests.append(digest())
            (first / 'a.h').write_text('int b;')
            digests.append(digest())
            self.assertEqual(len(set(digests)), 3)
            self.assertEqual(digests[0], digests[1])

    def test_parts_do_not_run_together(self):
        from gpumem.kernels._store import key
        told_apart = [('ab', 'c'), ('a', 'bc'), ('abc',), ('ab', 'c', ''), (b'ab', 'c'), (1, 'a'),
                      ('1', 'a'), (None, 'a'), ('None', 'a')]
        self.assertEqual(len({key(*parts) for parts in told_apart}), len(told_apart))
        self.assertEqual(key('ab', 'c'), key('ab', 'c'))

    def test_sizes_and_ages_for_people(self):
        from gpumem.kernels._settings import human_age, human_size, parse_size
        self.assertEqual([human_size(n) for n in (0, 1023, 1024, 222_208, 1_048_000, 4 << 30, 5 << 50)],
                         ['0 B', '1023 B', '1.0 KiB', '217 KiB', '1.0 MiB', '4.0 GiB', '5120 TiB'])
        self.assertEqual([human_age(s) for s in (-3, 0, 119, 120, 7200, 172800, 86400 * 30)],
                         ['0 s', '0 s', '119 s', '2 min', '2 h', '2 days', '30 days'])
        self.assertEqual([parse_size(s) for s in ('512MiB', '1.5GiB', '64M', '4096', 'x', '', '-1')],
                         [512 << 20, 3 << 29, 64 << 20, 4096, None, None, None])


if __name__ == '__main__':
    unittest.main()
