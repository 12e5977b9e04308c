# SPDX-License-Identifier: Apache-2.0
"""torch's optional extension: built by its command, loaded, and called as torch calls allocators.

Torch is too large for a test: torch_interface/ has its part of the interface, as of torch 2.11. The
extension's source and the way to it are those of the package.
"""

import ctypes
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import tomllib
import unittest
import unittest.mock

import world

MACHINE = world.World()
INTERFACE = pathlib.Path(__file__).parent / 'torch_interface'
MIB = 1 << 20
SIZES = ('allocation', 'allocated', 'requested', 'reserved')


# A tensor of a block of its own is freed with the GIL, while its stream waits for the GIL.
FREES = '''
import ctypes, sys, threading
import gpumem, world
from gpumem import _library, _structs, _torch_extension

cuda = world.Cuda()
cuda.make_current()
*_, torch_cuda = [ctypes.PyDLL(path) for path in sys.argv[1:]]
gpumem.connect()
extension = _torch_extension.load(_library.load().path)
_torch_extension.install(extension)
extension.gpumem_torch_extension_set_flags(_structs.REGISTERED)
pointer, entered, gate, ran = ctypes.c_void_p(), threading.Event(), threading.Event(), []
torch_cuda.stand_in_alloc(ctypes.c_size_t(1000), None, ctypes.byref(pointer))

def wait(unused):
    entered.set()
    gate.wait()
    ran.append(True)

function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(wait)
cuda.call("cuLaunchHostFunc", None, function, None)
entered.wait()
sys.setswitchinterval(1e6)  # no thread takes the GIL from this one
gate.set()
torch_cuda.stand_in_free(pointer)
print(len(ran), _library.load().adapters_failures())
'''


def make_torch(folder):
    """A package that looks like torch to those who do not import it."""
    package = folder / 'torch'
    (package / 'lib').mkdir(parents=True)
    (package / '__init__.py').write_text('raise ImportError("this stands for torch")\n')
    shutil.copytree(INTERFACE, package / 'include', ignore=shutil.ignore_patterns('*.cc'))
    cuda = folder / 'nvidia' / 'cu13' / 'include'
    (cuda / 'crt').mkdir(parents=True)
    for header in ('cuda_runtime_api.h', 'crt/host_config.h'):
        (cuda / header).write_text('')
    (folder / 'torch-2.11.0.dist-info').mkdir()
    (folder / 'torch-2.11.0.dist-info' / 'METADATA').write_text(
        'Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n')
    for name, source in (('c10', None), ('c10_cuda', None), ('torch_cuda', 'torch_cuda.cc')):
        subprocess.run(['c++', '-std=c++17', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-x', 'c++',
                        INTERFACE / source if source else '/dev/null', '-I', INTERFACE,
                        f'-Wl,-soname,lib{name}.so', '-o', package / 'lib' / f'lib{name}.so'], check=True)
    return package


def heap_bytes():
    """What malloc has given and not got back."""
    class Info(ctypes.Structure):
        """struct mallinfo2"""
        _fields_ = [(f'field{i}', ctypes.c_size_t) for i in range(10)]
    function = ctypes.CDLL(None).mallinfo2
    function.restype = Info
    return function().field7


def setUpModule():
    world.enter(MACHINE.start())
    cuda = world.Cuda()
    cuda.make_current()
    Extension.cuda = cuda
    site = MACHINE.folder / 'site'
    package = make_torch(site)
    MACHINE.environment['PYTHONPATH'] += f':{site}'
    MACHINE.environment['XDG_CACHE_HOME'] = os.environ['XDG_CACHE_HOME'] = str(MACHINE.folder / 'cache')
    sys.path.append(str(site))
    # As an import of torch does.
    Extension.libraries = [str(package / 'lib' / f'lib{name}.so') for name in ('c10', 'c10_cuda', 'torch_cuda')]
    *_, Extension.torch_cuda = map(ctypes.CDLL, Extension.libraries)
    for name in ('name', 'alloc', 'snapshot', 'share', 'receive', 'pool_make'):
        getattr(Extension.torch_cuda, 'stand_in_' + name).restype = ctypes.c_char_p
    Extension.torch_cuda.stand_in_cache_info.restype = ctypes.c_size_t
    Extension.torch_cuda.stand_in_fraction.restype = ctypes.c_double


def tearDownModule():
    MACHINE.stop()


class Extension(unittest.TestCase):
    """In the order of their names: without it, its command, then what it does."""

    extension = None

    def setUp(self):
        if self._testMethodName >= 'test_5' and self.extension is None:
            self.fail('the extension is not installed')

    def command(self, *arguments, **environment):
        return MACHINE.run('-m', 'gpumem', 'torch-extension', *arguments,
                           environment=MACHINE.environment | environment)

    def doctor(self):
        return MACHINE.run('-m', 'gpumem', 'doctor').stdout

    def test_1_absent(self):
        from gpumem import _torch_extension
        self.assertIsNone(_torch_extension.load('libgpumem-client.so.0'))
        self.assertRegex(self.doctor(), 'note +torch extension +not built, .*python -m gpumem torch-extension')
        where = self.command('--where')
        self.assertEqual(where.stdout.strip(), str(_torch_extension.path()))
        self.assertFalse(_torch_extension.path().exists())

    def test_1_each_source_counts(self):
        """The file is another one after any change, and the package has all that is compiled."""
        from gpumem import _torch_extension
        sources = (_torch_extension.SOURCE, *_torch_extension.PARTS)
        folder = _torch_extension.SOURCE.parent
        self.assertEqual({*sources}, {*folder.glob('*.cc'), *folder.glob('*.h')})
        project = tomllib.loads((world.PACKAGE_FOLDER / 'pyproject.toml').read_text())
        self.assertEqual({f'extension/{source.name}' for source in sources},
                         {*project['tool']['setuptools']['package-data']['gpumem.torch']})
        for source in sources:
            changed = MACHINE.folder / source.name
            changed.write_bytes(source.read_bytes() + b'\n')
            others = [changed if other == source else other for other in sources]
            with self.subTest(source.name), \
                    unittest.mock.patch.multiple(_torch_extension, SOURCE=others[0], PARTS=others[1:]):
                named = _torch_extension.path()
            self.assertNotEqual(named, _torch_extension.path())

    def test_1_what_is_missing_is_named(self):
        for arguments, environment, status, text in (
                (['--wrong'], {}, 2, 'invalid "--wrong" (expected --where)'),
                ([], {'PYTHONPATH': str(world.PACKAGE_FOLDER)}, 1, 'torch is not installed'),
                ([], {'CXX': 'false'}, 1, 'cannot be compiled for torch 2.11.0')):
            with self.subTest(text):
                ran = self.command(*arguments, **environment)
                self.assertEqual((ran.returncode, text in ran.stderr), (status, True), ran.stderr)
        library = MACHINE.folder / 'site' / 'torch' / 'lib' / 'libc10_cuda.so'
        library.rename(library.with_suffix('.away'))
        ran = self.command()
        library.with_suffix('.away').rename(library)
        self.assertIn('is without CUDA', ran.stderr)

    def test_2_build(self):
        from gpumem import _torch_extension
        ran = self.command()
        self.assertEqual((ran.returncode, ran.stdout.strip()), (0, str(_torch_extension.path())), ran.stderr)
        self.assertEqual([*_torch_extension.path().parent.iterdir()], [_torch_extension.path()])
        self.assertRegex(self.doctor(), 'ok +torch extension +/')

    def test_3_a_wrong_file_is_left(self):
        from gpumem import _notice, _torch_extension
        other = MACHINE.folder / 'other.so'
        shutil.copy(MACHINE.folder / 'site' / 'torch' / 'lib' / 'libc10.so', other)
        with unittest.mock.patch.object(_torch_extension, 'path', lambda: other), \
                unittest.mock.patch.object(_notice, 'say') as say:
            self.assertIsNone(_torch_extension.load('libgpumem-client.so.0'))
        self.assertIn("torch's extension is not used", say.call_args.args[0])
        with unittest.mock.patch.object(_notice, 'say') as say:
            self.assertIsNone(_torch_extension.load('/nowhere.so'))
        self.assertIn('/nowhere.so is not loaded', say.call_args.args[0])

    def test_4_install(self):
        import gpumem
        from gpumem import _library, _torch_extension
        gpumem.connect()
        _library.load().adapters_set_wait_ms(0)
        type(self).extension = _torch_extension.load(_library.load().path)
        _torch_extension.install(self.extension)
        self.assertEqual(self.torch_cuda.stand_in_name(), b'gpumem')
        with self.assertRaisesRegex(gpumem.Unsupported, "Can't swap"):
            _torch_extension.install(self.extension)

    def alloc(self, n_bytes, stream=None):
        pointer = ctypes.c_void_p()
        self.assertIsNone(self.torch_cuda.stand_in_alloc(
            ctypes.c_size_t(n_bytes), ctypes.c_void_p(stream), ctypes.byref(pointer)))
        return pointer.value

    def free(self, pointer):
        self.torch_cuda.stand_in_free(ctypes.c_void_p(pointer))

    def refused(self, n_bytes):
        pointer = ctypes.c_void_p()
        return self.torch_cuda.stand_in_alloc(ctypes.c_size_t(n_bytes), None, ctypes.byref(pointer)).decode()

    def stats(self):
        values = (ctypes.c_int64 * 17)()
        self.torch_cuda.stand_in_stats(values)
        return {name: tuple(values[4 * i:4 * i + 4]) for i, name in enumerate(SIZES)} | {'ooms': values[16]}

    def test_5_allocations(self):
        import gpumem
        pointer = self.alloc(1000)
        self.assertEqual(gpumem.describe(pointer).requested_bytes, 1000)
        self.free(pointer)
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(pointer)
        self.assertIsNone(self.alloc(0))
        self.free(None)

    def test_5_a_stream_gets_the_gil_while_a_free_waits_for_it(self):
        ran = MACHINE.run('-c', FREES, *self.libraries, cwd=os.path.dirname(world.__file__), timeout=20)
        self.assertEqual((ran.stdout, ran.stderr), ('1 0\n', ''))

    def test_5_out_of_memory(self):
        self.assertEqual(self.torch_cuda.stand_in_observe(), 0)
        n_ooms = self.stats()['ooms']
        self.assertRegex(self.refused(1 << 40), '^OutOfMemoryError: CUDA out of memory. Tried to allocate '
                                                '1.00 TiB on GPU 0 from gpumemd: .*1.00 TiB')
        self.assertEqual((self.torch_cuda.stand_in_observe(), self.stats()['ooms']), (1, n_ooms + 1))

    def test_5_cache_info(self):
        import gpumem
        free = (64 << 20) - gpumem.stats(0).allocated_bytes
        self.assertEqual(self.torch_cuda.stand_in_cache_info(), free)

    def test_5_statistics(self):
        import gpumem
        self.torch_cuda.stand_in_reset()
        before = self.stats()
        self.assertEqual((before['allocation'][2:], before['ooms']), ((0, 0), 0))
        first, second = self.alloc(1000), self.alloc(3 * MIB)
        self.free(first)
        after = self.stats()
        self.assertEqual(after['allocation'], (before['allocation'][0] + 1, before['allocation'][0] + 2, 2, 1))
        self.assertEqual(after['allocated'][2:], (3 * MIB + 1024, 1024))
        self.assertEqual(after['requested'][2:], (3 * MIB + 1000, 1000))
        self.assertEqual(after['allocated'][0], gpumem.stats(0).allocated_bytes)
        self.assertEqual(after['reserved'][0], gpumem.stats(0).reserved_bytes)
        self.free(second)
        self.torch_cuda.stand_in_reset()
        self.assertEqual(self.stats()['allocated'][1], self.stats()['allocated'][0])
        self.assertEqual(gpumem.stats(0).requested_peak_bytes, gpumem.stats(0).requested_bytes)

    def test_5_fraction(self):
        set_fraction = self.torch_cuda.stand_in_fraction
        self.assertEqual(set_fraction(ctypes.c_double(0)), 1.0)
        self.assertEqual(set_fraction(ctypes.c_double(0.002)), 0.002)  # of 8 GiB
        self.assertRegex(self.refused(32 * MIB), '^OutOfMemoryError: ')
        self.assertEqual(set_fraction(ctypes.c_double(1)), 1.0)

    def has(self, pool, *pointers):
        array = (ctypes.c_void_p * len(pointers))(*pointers)
        return bool(self.torch_cuda.stand_in_pool_has(ctypes.c_uint64(pool), array, ctypes.c_size_t(len(pointers))))

    def test_5_pools(self):
        stream = self.cuda.stream()
        before = self.alloc(1000, stream)
        self.torch_cuda.stand_in_pool_begin(ctypes.c_uint64(7), ctypes.c_void_p(stream))
        first, second, other = self.alloc(1000, stream), self.alloc(2000, stream), self.alloc(1000)
        self.torch_cuda.stand_in_pool_end(ctypes.c_uint64(7))
        after = self.alloc(1000, stream)
        self.assertTrue(self.has(7, first, second))
        for wrong in ((first,), (first, second, before), (first, other), ()):
            self.assertFalse(self.has(7, *wrong))
        self.assertTrue(self.has(8))
        self.assertEqual(self.torch_cuda.stand_in_snapshot(ctypes.c_uint64(7)).count(b'+'), 2)
        self.free(first)
        self.assertTrue(self.has(7, second))
        for pointer in (before, second, other, after):
            self.free(pointer)
        self.assertTrue(self.has(7))
        self.assertIsNone(self.torch_cuda.stand_in_pool_make(ctypes.c_uint64(7), 0))
        self.assertIn(b'an allocator of its own', self.torch_cuda.stand_in_pool_make(ctypes.c_uint64(7), 1))
        uses = [self.torch_cuda.stand_in_pool_release(ctypes.c_uint64(7)) for _ in range(3)]
        self.assertEqual(uses, [2, 1, 0])

    def test_5_snapshot(self):
        import gpumem
        pointers = [self.alloc(n) for n in (1000, 2000, 3 * MIB, 100, 7 * MIB)]
        self.free(pointers.pop(1))
        lines = self.torch_cuda.stand_in_snapshot(ctypes.c_uint64(0)).decode().splitlines()
        found, end = [], 0
        for line in lines:
            address, size, *blocks = line.split()
            at = int(address)
            self.assertGreater(at, end)  # segments neither touch nor overlap
            for block in blocks:
                if block.endswith('+'):
                    found.append((at, int(block[:-1])))
                at += int(block[:-1])
            self.assertEqual(at, int(address) + int(size))
            end = at
        self.assertEqual(found, sorted((p, gpumem.describe(p).allocated_bytes) for p in pointers))
        for pointer in pointers:
            self.free(pointer)
        self.assertEqual(self.torch_cuda.stand_in_snapshot(ctypes.c_uint64(0)), b'')

    def share(self, pointer):
        offset, handle = ctypes.c_int64(), ctypes.create_string_buffer(100)
        problem = self.torch_cuda.stand_in_share(ctypes.c_void_p(pointer), ctypes.byref(offset), handle,
                                                 ctypes.c_size_t(100))
        return problem, offset.value, handle.value

    def receive(self, handle):
        pointer = ctypes.c_void_p()
        problem = self.torch_cuda.stand_in_receive(handle, ctypes.byref(pointer))
        return problem or pointer.value

    def test_5_registered_memory(self):
        """Which has a block of its own, and may be exported."""
        import gpumem
        from gpumem import _library, _structs
        set_flags = self.extension.gpumem_torch_extension_set_flags
        set_flags(_structs.REGISTERED)
        pointer, other = self.alloc(1000), self.alloc(1000)
        set_flags(0)
        plain = self.alloc(1000)
        blocks = {gpumem.describe(each).block for each in (pointer, other, plain)}
        self.assertEqual(len(blocks), 3)
        fd = ctypes.c_int(-1)
        export = _library.load().export_dmabuf
        self.assertEqual(export(None, pointer, 1000, fd), 0)
        os.close(fd.value)
        self.assertNotEqual(export(None, plain, 1000, fd), 0)
        for each in (pointer, other, plain):
            self.free(each)

    def test_5_memory_of_its_own_block_is_waited_for(self):
        import gpumem
        from gpumem import _library, _structs
        held = gpumem.empty(60 * MIB)

        def free():
            world.wait_until(lambda: any(pool['waiting_count'] for pool in MACHINE.ctl('stats')['pools']))
            held.free()
        thread = threading.Thread(target=free)
        self.extension.gpumem_torch_extension_set_flags(_structs.REGISTERED)
        self.assertRegex(self.refused(40 * MIB), '^OutOfMemoryError: ')
        _library.load().adapters_set_wait_ms(60_000)
        thread.start()
        try:
            self.free(self.alloc(40 * MIB))
        finally:
            _library.load().adapters_set_wait_ms(0)
            self.extension.gpumem_torch_extension_set_flags(0)
            thread.join()

    def test_5_what_was_received_is_forgotten(self):
        """A program that receives tensors as long as it lives does not grow with them."""
        import gpumem
        owner = gpumem.empty(1000, shareable=True)

        def receive(n):
            for _ in range(n):
                token = gpumem.share(owner)
                self.assertIsInstance(self.receive(f'gpumem:{token}'.encode()), int)
                self.assertGreater(self.torch_cuda.stand_in_let_go(), 0)
                gpumem.unshare(token)
        receive(100)
        before = heap_bytes()
        receive(1000)
        self.assertLess(heap_bytes() - before, 50_000)

    def test_5_other_processes(self):
        import gpumem
        plain = self.alloc(1000)
        self.assertIn(b'with gpumem.torch.shareable()', self.share(plain)[0])
        self.free(plain)
        set_flags = self.extension.gpumem_torch_extension_set_flags
        self.assertEqual((set_flags(1), set_flags(1)), (0, 1))
        pointer = self.alloc(1000)
        set_flags(0)
        self.cuda.fill(pointer, 7, 1000)
        problem, offset, handle = self.share(pointer + 100)
        self.assertEqual((problem, offset), (None, 100))
        self.assertEqual(self.share(pointer), (None, 0, handle))
        self.assertRegex(handle, b'^gpumem:[0-9a-f]{32}$')
        attached = self.receive(handle)
        self.assertTrue(gpumem.describe(attached).is_attached)
        self.assertEqual(self.cuda.read(attached, 1000), bytes([7]) * 1000)
        self.assertEqual(self.torch_cuda.stand_in_let_go(), 1)
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(attached)
        self.free(pointer)
        self.assertIn(b'gpumem_attach: ', self.receive(handle))
        self.assertIn(b'that gpumemd does not serve', self.receive(b'x' * 64))

    def test_6_nothing_is_left(self):
        import gpumem
        from gpumem import _library
        self.assertEqual(gpumem.stats(0).requested_bytes, 0)
        self.assertEqual(self.stats()['allocation'][0], 0)
        self.assertEqual(_library.load().adapters_failures(), 0)


if __name__ == '__main__':
    unittest.main()
