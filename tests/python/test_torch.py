# SPDX-License-Identifier: Apache-2.0
"""gpumem.torch over a stub of torch: what it calls, what it replaces, and what it refuses.

Torch itself needs a GPU and 2.5 GB; this is of the logic that is ours alone.
"""

import contextlib
import ctypes
import io
import os
import sys
import types
import unittest
import unittest.mock

import world

MACHINE = world.World()

# name: of torch._C, with what it has got
calls = []


class Allocator:
    """torch._C._cuda_customAllocator's."""

    def __init__(self, alloc, free):
        self.alloc, self.free = alloc, free

    def _take(self, *arguments):
        calls.append(arguments)

    set_init_fn = set_reset_fn = set_memory_fraction_fn = set_base_alloc_fn = _take
    set_record_stream_fn = _take


# torch's numbers of streams: of its own ones, and of others.
OWN, EXTERNAL = 0x21, 0x7f0000001000


class StreamBase:
    """torch.cuda.Stream, made of a device and a handle."""

    def __new__(cls, device_index=0, cuda_stream=0, stream_id=None):
        made = object.__new__(cls)
        made.device_index, made.cuda_stream = device_index, cuda_stream
        made.stream_id = OWN if cuda_stream and stream_id is None else stream_id or 0
        return made


class CUDAGraph:
    """torch.cuda.CUDAGraph."""

    def capture_begin(self, pool=None, capture_error_mode='global'):
        calls.append(('begin', pool, capture_error_mode))

    def capture_end(self):
        calls.append(('end',))


class CudnnModule(types.ModuleType):
    """torch.backends.cudnn's class: benchmark asks and tells torch._C."""

    is_on = True

    @property
    def benchmark(self):
        return self.is_on

    @benchmark.setter
    def benchmark(self, value):
        type(self).is_on = value


def make_pool(self, allocator=None, wrong=None, **options):
    """torch.cuda.MemPool's, which torch refuses with a text where the allocator has no pools."""
    if wrong:
        raise RuntimeError(wrong)


def make_torch(cuda):
    """The modules that gpumem.torch reads and replaces."""
    torch = types.ModuleType('torch')
    torch.float32 = 'float32'
    torch._C = types.SimpleNamespace(
        _cuda_customAllocator=Allocator,
        _cuda_changeCurrentAllocator=lambda made: calls.append(('change', made)),
        import_ir_module=lambda *arguments: None,
        _get_cudnn_benchmark=lambda: CudnnModule.is_on,
        _set_cudnn_benchmark=lambda value: setattr(CudnnModule, 'is_on', value))
    torch.backends = types.SimpleNamespace(cudnn=CudnnModule('torch.backends.cudnn'))
    torch.UntypedStorage = type('UntypedStorage', (), {})
    torch.compile = lambda model=None, **options: (model, options)
    memory = types.SimpleNamespace(
        _snapshot=lambda: {}, memory_snapshot=lambda: [], _record_memory_history=lambda: None,
        mem_get_info=None, memory_summary=None, get_per_process_memory_fraction=None,
        set_per_process_memory_fraction=lambda fraction, device=None: calls.append(
            ('fraction', fraction, device)))
    torch.cuda = types.SimpleNamespace(
        memory=memory, mem_get_info=None, memory_snapshot=None, memory_summary=None,
        set_per_process_memory_fraction=None, get_per_process_memory_fraction=None,
        Stream=type('Stream', (StreamBase,), {}), CUDAGraph=CUDAGraph,
        MemPool=type('MemPool', (), {'__init__': make_pool}),
        is_initialized=lambda: torch.cuda.initialized, initialized=False,
        _lazy_init=lambda: setattr(torch.cuda, 'initialized', True),
        current_device=lambda: 0,
        current_stream=lambda: types.SimpleNamespace(cuda_stream=torch.cuda.current),
        current=0, device=lambda device: contextlib.nullcontext(cuda.make_current(device)),
        cudart=lambda: types.SimpleNamespace(cudaMemGetInfo=lambda device: (6 << 30, 8 << 30)),
        _utils=types.SimpleNamespace(
            _get_device_index=lambda device, optional: 0 if device is None else device))
    return torch


def setUpModule():
    world.enter(MACHINE.start())
    cuda = world.Cuda()
    cuda.make_current()
    Torch.cuda = cuda
    Torch.torch = sys.modules['torch'] = make_torch(cuda)
    # In its source it is a class whose functions are called by name.
    Torch.torch.cuda.Stream = type('Stream', (StreamBase,), {'__new__': StreamBase.__new__})


def tearDownModule():
    MACHINE.stop()


def said(call):
    """What a call says on stderr."""
    with contextlib.redirect_stderr(io.StringIO()) as got:
        call()
    return got.getvalue()


# Served by `python -m gpumem run`; it chooses its device and forks after the import of torch.
LATE = """
import os, sys, test_torch
torch = sys.modules['torch'] = test_torch.make_torch(None)
import gpumem.torch
from gpumem import _driver

def n_changed():
    return sum(call[0] == 'change' for call in test_torch.calls)

def begin(who):
    torch.cuda._lazy_init()
    print(who, n_changed(), torch.cuda.memory.mem_get_info is not None, _driver.count_devices(), flush=True)

torch.backends.cudnn.benchmark = True
gpumem.torch.install_where_served(lambda done: print('served:', done), lambda error: print('own:', error))
print('changed', n_changed(), flush=True)
torch.backends.cudnn.benchmark = False
if (child := os.fork()) == 0:
    begin('child')
    os._exit(0)
os.waitpid(child, 0)
os.environ['CUDA_VISIBLE_DEVICES'] = sys.argv[1]
torch._C.import_ir_module()  # torch.jit.load, which begins in C++
print('loaded', n_changed(), flush=True)
begin('parent')
print('benchmark', test_torch.CudnnModule.is_on)
"""


def run_late(visible, **more):
    """What that program says."""
    folder = os.path.dirname(os.path.abspath(__file__))
    environment = MACHINE.environment | {
        'PYTHONPATH': os.pathsep.join((folder, MACHINE.environment['PYTHONPATH'])),
        'NCCL_GRAPH_REGISTER': '0'} | more
    return MACHINE.run('-c', LATE, visible, environment=environment)


class Late(unittest.TestCase):
    """A program that `python -m gpumem run` serves."""

    def test_devices_are_chosen_after_the_import(self):
        ran = run_late('1')
        self.assertEqual(ran.stdout.splitlines(),
                         ['changed 0', 'served: every CUDA tensor', 'child 1 True 2',
                          'served: every CUDA tensor', 'loaded 1', 'parent 1 True 1', 'benchmark False'], ran.stderr)

    def test_a_device_that_gpumemd_has_not(self):
        other = f'devices=1,bytes=1GiB,dir={MACHINE.folder}/other'
        ran = run_late('0', GPUMEM_EMULATOR=other)
        self.assertEqual(ran.stdout.splitlines()[0], 'changed 0', ran.stderr)
        self.assertIn('own: gpumemd has no pool for any CUDA device', ran.stdout)
        self.assertEqual(ran.stdout.splitlines()[-2:], ['parent 0 False 1', 'benchmark False'])

    def test_no_daemon(self):
        ran = run_late('0', GPUMEM_SOCKET='/nowhere/gpumemd.sock')
        self.assertIn('NoDaemon: no gpumemd at /nowhere/gpumemd.sock', ran.stderr)
        self.assertEqual(ran.returncode, 1)


class Torch(unittest.TestCase):
    """In the order of their names: the first uses of CUDA, then what is installed."""

    def setUp(self):
        calls.clear()

    def test_1_too_late(self):
        import gpumem.torch
        self.torch.cuda._lazy_init()
        with self.assertRaises(gpumem.Unsupported) as caught:
            gpumem.torch.install()
        self.assertIn(f'{__file__}:', str(caught.exception))
        self.torch.cuda.initialized = False

    def test_2_pool(self):
        import gpumem.torch
        from gpumem import _library
        for options, function in (({}, 'pool'), ({'registered': True}, 'registered')):
            self.assertIsInstance(gpumem.torch.pool(**options), self.torch.cuda.MemPool)
            self.assertEqual(gpumem.torch._kept[-1].alloc,
                             _library.load().address(f'gpumem_torch_{function}_alloc'))
        self.assertEqual(calls, [])

    def looks(self):
        """All that install() replaces."""
        torch = self.torch
        owners = (torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.Stream,
                  torch.cuda.CUDAGraph, torch.cuda.MemPool, torch.UntypedStorage, CudnnModule)
        return [dict(vars(owner)) for owner in owners] + [dict(os.environ)]

    def test_2_what_fails_leaves_torch_as_it_was(self):
        import gpumem.torch

        def fail(*unused):
            raise RuntimeError('not today')
        for owner, name in ((self.torch._C, '_cuda_changeCurrentAllocator'),
                            (self.torch._C, '_get_cudnn_benchmark'),
                            (gpumem.torch._graphs, 'install')):
            with self.subTest(name), unittest.mock.patch.object(owner, name, fail):
                before = self.looks()
                said_then = io.StringIO()
                with contextlib.redirect_stderr(said_then), self.assertRaisesRegex(
                        RuntimeError, 'not today'):
                    gpumem.torch.install()
                self.assertEqual(said_then.getvalue(), '')
                self.assertEqual(self.looks(), before)
                self.assertEqual([call for call in calls if call[0] == 'change'], [])

    def test_2_the_extension_replaces_less(self):
        """What it does by itself is torch's then; what it cannot is refused as without it."""
        import gpumem.torch
        from gpumem import _torch_extension
        seen = []

        def look(extension):
            torch = self.torch
            seen.extend([extension, hasattr(torch._C, '_cuda_memoryStats'),
                         hasattr(torch.UntypedStorage, '_share_cuda_'), CudnnModule.is_on,
                         torch.cuda.memory._snapshot()])
            with self.assertRaises(gpumem.Unsupported):
                torch.cuda.memory._record_memory_history()
            raise RuntimeError('not today')
        before = self.looks()
        with unittest.mock.patch.object(_torch_extension, 'load', lambda path: 'built'), \
                unittest.mock.patch.object(_torch_extension, 'install', look), \
                self.assertRaisesRegex(RuntimeError, 'not today'):
            gpumem.torch.install()
        self.assertEqual(seen, ['built', False, False, True, {}])
        self.assertEqual(self.looks(), before)
        for asked in (gpumem.torch.shareable, gpumem.torch.registered):
            with self.assertRaisesRegex(gpumem.Unsupported, 'torch-extension'), asked():
                pass

    def test_3_install(self):
        import gpumem.torch
        os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'
        os.environ['WORLD_SIZE'] = '2'
        lines = said(gpumem.torch.install).splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertIn('PYTORCH_CUDA_ALLOC_CONF is ignored', lines[0])
        self.assertIn('torch.backends.cudnn.benchmark stays off', lines[1])
        self.assertIn('NCCL_GRAPH_REGISTER=0', lines[2])
        self.assertEqual(os.environ['NCCL_GRAPH_REGISTER'], '0')
        self.assertEqual(len(calls), 6)
        self.assertEqual(calls[-1][0], 'change')
        library = gpumem._library.load()
        self.assertEqual(calls[-1][1].alloc, library.address('gpumem_torch_alloc'))
        calls.clear()
        self.assertIn('as before', gpumem.torch.install())
        self.assertEqual(calls, [])

    def test_4_no_pools_beside(self):
        import gpumem.torch
        with self.assertRaises(gpumem.Unsupported):
            gpumem.torch.pool()
        with self.assertRaises(gpumem.Unsupported):
            self.torch.cuda.MemPool(Allocator(0, 0))
        self.torch.cuda.MemPool()
        for text, wanted in (('pluggable does not yet support createOrIncrefPool', 'torch-extension'),
                             ('another', 'another')):
            with self.assertRaisesRegex(RuntimeError, wanted):
                self.torch.cuda.MemPool(wrong=text)

    def test_4_statistics(self):
        import gpumem
        buffer = gpumem.empty(1 << 20, device=0)
        figures = self.torch._C._cuda_memoryStats(0)
        self.assertEqual(figures['requested_bytes']['all']['current'], buffer.nbytes)
        self.assertEqual(figures['reserved_bytes']['all']['current'],
                         gpumem.stats(0).reserved_bytes)
        free, total = self.torch.cuda.mem_get_info()
        self.assertEqual(total, 8 << 30)
        self.assertEqual(free, (64 << 20) - gpumem.stats(0).allocated_bytes)
        self.assertRegex(self.torch.cuda.memory_summary(), r'requested, MiB +1\.0 +')
        self.assertEqual(figures['allocation'], {'all': {
            'current': gpumem.stats(0).live, 'allocated': gpumem.stats(0).allocations,
            'freed': gpumem.stats(0).frees}})
        self.assertEqual(figures['inactive_split_bytes']['all']['current'],
                         gpumem.stats(0).inactive_split_bytes)
        self.assertNotIn('oversize_segments', figures)
        del buffer
        self.torch._C._cuda_resetPeakMemoryStats(0)
        self.assertEqual(self.torch._C._cuda_memoryStats(0)['allocated_bytes']['all']['peak'], 0)

    def test_4_fraction(self):
        self.assertEqual(self.torch.cuda.get_per_process_memory_fraction(1), 1.0)
        self.torch.cuda.set_per_process_memory_fraction(0.5, 1)
        self.assertEqual(calls, [('fraction', 0.5, 1)])
        self.assertEqual(self.torch.cuda.get_per_process_memory_fraction(1), 0.5)

    def test_4_streams(self):
        import gpumem
        handle = self.cuda.stream()
        self.torch.cuda.Stream(0, handle, EXTERNAL)
        with self.assertRaises(gpumem.Error):  # its owner may destroy it
            gpumem.stream_unregister(handle)
        # Its handle is a stream of torch's own then.
        for _ in range(3):
            self.torch.cuda.Stream(0, handle)
        gpumem.stream_unregister(handle)
        with self.assertRaises(gpumem.Error):  # it was registered once
            gpumem.stream_unregister(handle)
        gpumem.stream_unregister(None)
        self.torch.cuda.Stream(1, 0)
        self.cuda.make_current(1)
        gpumem.stream_unregister(None)
        self.cuda.make_current(0)

    def test_4_graphs_that_share(self):
        from gpumem.torch import _graphs
        self.torch.cuda.current = handle = self.cuda.stream()
        graph = self.torch.cuda.CUDAGraph()
        graph.capture_begin((0, 7), capture_error_mode='relaxed')
        self.assertEqual(graph._gpumem_pool, (_graphs.pool_number((0, 7)), handle))
        other = self.torch.cuda.CUDAGraph()
        other.capture_begin(pool=(0, 7))  # the stream has it already
        self.assertNotIn('_gpumem_pool', other.__dict__)
        graph.capture_end()
        self.assertNotIn('_gpumem_pool', graph.__dict__)
        other.capture_begin((0, 8))
        other.capture_end()
        other.capture_begin(capture_error_mode='relaxed')
        self.assertEqual(calls[0], ('begin', (0, 7), 'relaxed'))
        self.assertEqual(calls[-1], ('begin', None, 'relaxed'))
        other.capture_end()

    def test_4_captures_are_announced(self):
        from gpumem import _library
        library, told = _library.load(), []
        real = library.before_capture, library.after_capture
        library.before_capture = lambda client: told.append('before') or real[0](client)
        library.after_capture = lambda client: told.append('after') or real[1](client)
        self.torch.cuda.current = self.cuda.stream()
        graph = self.torch.cuda.CUDAGraph()
        try:
            for arguments in ((), ((0, 11),)):
                graph.capture_begin(*arguments)
                self.assertEqual(told, ['before'])
                graph.capture_end()
                self.assertEqual(told, ['before', 'after'])
                told.clear()
            with self.assertRaises(TypeError):
                graph.capture_begin(wrong=1)
            self.assertEqual(told, ['before', 'after'])
            graph.capture_begin()
            with self.assertRaises(TypeError):  # the first capture goes on
                graph.capture_begin(wrong=1)
            self.assertEqual(told, ['before', 'after', 'before'])
            graph.capture_end()
            graph.capture_begin()
            del graph  # without an end
            self.assertEqual(told, ['before', 'after'] * 3)
        finally:
            library.before_capture, library.after_capture = real
        self.assertEqual(library.after_capture(None), 72)  # none is announced

    def test_4_a_capture_that_fails_closes_its_pool(self):
        self.torch.cuda.current = self.cuda.stream()
        graph = self.torch.cuda.CUDAGraph()
        with self.assertRaises(TypeError):
            graph.capture_begin((0, 9), wrong=1)
        graph.capture_begin((0, 10))
        self.assertIn('_gpumem_pool', graph.__dict__)
        graph.capture_end()

    def test_4_numbers_of_pools(self):
        from gpumem.torch._graphs import pool_number
        numbers = {pool_number((i, j)) for i in range(50) for j in range(50)}
        self.assertEqual(len(numbers), 2500)
        self.assertTrue(all(0 < n < 2**63 for n in numbers))

    def test_4_what_is_refused(self):
        import gpumem
        for call in (self.torch.cuda.memory._snapshot, self.torch.cuda.memory_snapshot,
                     self.torch.cuda.memory._record_memory_history,
                     self.torch.UntypedStorage()._share_cuda_):
            with self.assertRaises(gpumem.Unsupported) as caught:
                call()
            self.assertIn('is not possible', str(caught.exception))

    def test_4_benchmark_stays_off(self):
        from gpumem import _notice
        _notice._said.clear()

        def switch_on():
            self.torch.backends.cudnn.benchmark = True
            self.torch._C._set_cudnn_benchmark(True)
        self.assertEqual(len(said(switch_on).splitlines()), 1)
        self.assertFalse(self.torch.backends.cudnn.benchmark)
        self.assertFalse(CudnnModule.is_on)

    def test_4_compile_makes_no_graphs(self):
        made = {}
        text = said(lambda: made.update(self.torch.compile('m', mode='reduce-overhead')[1]))
        self.assertEqual(made, {'mode': None})
        self.assertIn('makes no CUDA graphs', text)
        for given, wanted in (({'mode': 'max-autotune'}, {'mode': 'max-autotune-no-cudagraphs'}),
                              ({'options': {'triton.cudagraphs': True, 'a': 1}},
                               {'options': {'triton.cudagraphs': False, 'a': 1}}),
                              ({'mode': 'default'}, {'mode': 'default'})):
            said(lambda given=given: made.update(got=self.torch.compile('m', **given)))
            self.assertEqual(made['got'], ('m', wanted))

    def check_registered(self, alloc, free):
        """Each has a block of its own, and is made for RDMA."""
        import gpumem
        self.assertIsNone(alloc(0, 0, None))
        pointers = [alloc(1000, 0, None), alloc(1000, 0, None)]
        infos = [gpumem.describe(pointer) for pointer in pointers]
        self.assertNotEqual(infos[0].block, infos[1].block)
        self.assertEqual([info.block_bytes for info in infos], [2 << 20] * 2)
        for pointer in pointers:
            free(pointer, 1000, 0, None)
            with self.assertRaises(gpumem.NotOurs):
                gpumem.describe(pointer)

    def test_4_the_functions_are_torchs(self):
        """As torch would call them."""
        import gpumem
        from gpumem import _library, torch
        allocator = torch._kept[-1]
        alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                ctypes.c_void_p)
        self.assertIsNone(alloc(allocator.alloc)(0, 0, None))
        self.check_registered(alloc(_library.load().address('gpumem_torch_registered_alloc')),
                              free(allocator.free))
        pointer = alloc(allocator.alloc)(1000, 1, None)
        self.assertEqual(gpumem.describe(pointer).place, 1)
        free(allocator.free)(pointer, 1000, 1, None)
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(pointer)
        self.assertEqual(torch.failures(), 0)
        pool_alloc = alloc(_library.load().address('gpumem_torch_pool_alloc'))
        torch.install()
        _library.load().adapters_set_wait_ms(0)
        self.assertIsNone(pool_alloc(1 << 40, 0, None))


if __name__ == '__main__':
    unittest.main()
