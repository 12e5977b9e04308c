# SPDX-License-Identifier: Apache-2.0
"""NumPy, CuPy and Numba themselves, over the emulated driver."""

import json
import subprocess
import unittest

import frameworks
import world

MACHINE = world.World(device_bytes='1GiB', pinned_bytes='256MiB')

NUMPY = '''
import gc
import numpy as np
import gpumem

buffer = gpumem.pinned((3, 4), "f8")
array = buffer.numpy()
array[:] = 7
assert array.shape == (3, 4) and array.dtype == np.float64 and array.flags.writeable
assert array.__array_interface__["data"][0] == buffer.pointer
again = np.from_dlpack(buffer)
assert again.flags.writeable and (again == 7).all()
for empty in np.from_dlpack(buffer.view((0, 4))), buffer.view((0, 4)).numpy():
    assert empty.shape == (0, 4)
assert gpumem.pinned(5, np.dtype("i2")).dtype.name == gpumem.pinned(5, np.int16).dtype.name
del buffer, array, empty
gc.collect()
assert gpumem.stats(kind="pinned").requested_bytes == 96 and (again == 7).all()
del again
gc.collect()
assert gpumem.stats(kind="pinned").requested_bytes == 0
print("right")
'''

CUPY = '''
import gc
import cupy, cupyx
import gpumem
import gpumem.cupy

def requested():
    gc.collect()
    return gpumem.stats(kind="pinned").requested_bytes

array = cupyx.empty_pinned((1000,), "f8")
array[:] = 3
assert array.sum() == 3000 and requested() == 8000
memory = cupy.cuda.alloc_pinned_memory(30_000_000)
assert memory.size() == 30_000_000 and requested() == 30_008_000, "a power of two"
try:
    cupy.cuda.alloc_pinned_memory(1 << 40)
    raise AssertionError
except MemoryError:
    pass
del array, memory
assert requested() == 0
cupy.get_default_pinned_memory_pool().free_all_blocks()
assert gpumem.stats(kind="pinned").reserved_bytes == 0
assert cupy.get_default_memory_pool().used_bytes() == 0
assert gpumem.cupy._stream_function(), "CuPy tells its stream"
print("right")
'''

# Cython, which CuPy is written in, lets an exception of Python's pass where C++ throws. PyDLL does so too.
CUPY_REFUSED = '''
import ctypes, subprocess, sys
import cupy
import gpumem.cupy
from gpumem import _library

open(sys.argv[0] + ".cc", "w").write("""
#include <cstddef>
#include <stdexcept>
extern "C" void *guarded(void *(*alloc)(void *, size_t, int), size_t n_bytes)
{
        try {
                return alloc(nullptr, n_bytes, 0);
        } catch (const std::runtime_error &) {
                return nullptr;
        }
}
""")
subprocess.run(["c++", "-shared", "-fPIC", sys.argv[0] + ".cc", "-o", sys.argv[0] + ".so"], check=True)
guarded = ctypes.PyDLL(sys.argv[0] + ".so").guarded
guarded.restype, guarded.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]
library = _library.load()
alloc = library.address("gpumem_cupy_alloc")
assert guarded(alloc, 1000) and guarded(alloc, 0) is None
try:
    guarded(alloc, 1 << 40)
    raise AssertionError
except cupy.cuda.memory.OutOfMemoryError as error:
    assert str(error).startswith("CUDA out of memory. Tried to allocate 1.00 TiB"), error
sys.modules["gpumem.cupy"] = None  # it cannot be imported
assert guarded(alloc, 1 << 40) is None, "C++'s alone"
print("right")
'''

NUMBA = '''
import gc
import numpy as np
from numba import cuda
import gpumem

def requested(kind="device"):
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    gpumem.flush()  # what was freed waits for work of its stream
    return gpumem.stats(kind=kind).requested_bytes

values = np.arange(1000.0)
array = cuda.to_device(values)
assert type(cuda.current_context().memory_manager).__module__ == "gpumem.numba"
assert requested() == 8000
half = array[500:]
del array
assert requested() == 8000 and (half.copy_to_host() == values[500:]).all()
del half
assert requested() == 0
pinned, mapped = cuda.pinned_array(1000), cuda.mapped_array(1000)
pinned[:] = mapped[:] = 5
assert requested("pinned") == 16000 and pinned.sum() == 5000
del pinned, mapped
assert requested("pinned") == 0
stream = cuda.stream()
for _ in range(50):
    cuda.to_device(values, stream=stream)
stream.synchronize()
assert requested() == 0
buffer = gpumem.empty(1000, "f8")
theirs = cuda.as_cuda_array(buffer)
theirs.copy_to_device(values)
del buffer
assert (theirs.copy_to_host() == values).all()
del theirs
assert requested() == 0
try:
    cuda.device_array(1 << 40, "u1")
    raise AssertionError
except cuda.cudadrv.driver.CudaAPIError as error:
    assert "1.00 TiB" in str(error), error
free, total = cuda.current_context().get_memory_info()
assert 0 < free <= total
print("right")
'''

# An array ends while a stream still reads it that does not wait for the default stream.
STREAMS = '''
import ctypes, threading
import numpy as np
import cuda.core
from numba import cuda as numba_cuda
import gpumem, gpumem.numba, world

driver = world.Cuda()
context = numba_cuda.current_context()
context.push()

def ends_before_the_work(handle, stream):
    array = numba_cuda.to_device(np.arange(1000.0))
    array.copy_to_host(stream=stream)
    gate, done = threading.Event(), []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda unused: gate.wait() and done.append("work"))
    driver.call("cuLaunchHostFunc", ctypes.c_void_p(handle), function, None)
    pointer = array.gpu_data.device_ctypes_pointer.value
    del array

    def end():
        context.push()
        context.memory_manager.deallocations.clear()
        try:
            gpumem.describe(pointer)
        except gpumem.NotOurs:
            done.append("end")

    thread = threading.Thread(target=end)
    thread.start()
    thread.join(0.5)  # the end comes now, if it does not wait
    gate.set()
    thread.join()
    driver.call("cuCtxSynchronize")
    return done != ["work", "end"]

blocking = driver.stream()
assert numba_cuda.external_stream(blocking)
assert not gpumem.numba._has_unordered
if WHOSE == "external":
    handle = driver.stream(1)
    stream = numba_cuda.external_stream(handle)
else:
    device = cuda.core.Device()
    device.set_current()
    stream = device.create_stream()
    handle = int(stream.handle)
print(ends_before_the_work(handle, stream))
'''

OUTLIVES = '''
import sys
import numpy as np
from numba import cuda
array = cuda.to_device(np.arange(100))
print("holds", flush=True)
sys.stdin.readline()
small = cuda.device_array(100)
print("has more of its block", flush=True)
large = cuda.device_array(32 << 20, "u1")
print((array.copy_to_host() == np.arange(100)).all(), flush=True)
sys.stdin.readline()
try:
    cuda.device_array(64 << 20, "u1")
except Exception as error:
    print(type(error).__name__, error)
'''

MANAGER = '''
import numpy as np
from numba import cuda
array = cuda.to_device(np.arange(10))
assert (array.copy_to_host() == np.arange(10)).all()
print(type(cuda.current_context().memory_manager).__module__)
'''

FORKS = '''
import os
import numpy as np
from numba import cuda
pid = os.fork()
if pid == 0:
    cuda.to_device(np.arange(10))
    os._exit(0 if type(cuda.current_context().memory_manager).__module__ == "gpumem.numba" else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
'''

DISABLED = '''
import importlib
import gpumem, gpumem.kernels
for name in "cupy", "numba", "rmm", "cuda_core":
    said = importlib.import_module(f"gpumem.{name}").install()
    assert said == "nothing: GPUMEM_DISABLE is set", (name, said)
assert gpumem.kernels.install("numba", "cupy") == "nothing: GPUMEM_DISABLE is set"
assert gpumem.pinned(1000).nbytes == 1000 and gpumem.stats(kind="pinned").reserved_bytes, "a program's own call is served"
'''

IPC = '''
import multiprocessing
import numpy as np
from numba import cuda

def read(handle, queue):
    with handle as array:
        queue.put(array.copy_to_host().tolist())

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    array = cuda.to_device(np.arange(10))
    for part in (array, array[4:]):
        process = spawn.Process(target=read, args=(part.get_ipc_handle(), queue))
        process.start()
        print(queue.get(timeout=60))
        process.join()
'''

MODULES = [f'numba.cuda.tests.cudadrv.{name}' for name in (
    'test_emm_plugins', 'test_cuda_memory', 'test_cuda_ndarray', 'test_pinned',
    'test_select_device', 'test_cuda_auto_context', 'test_events', 'test_array_attr',
    'test_host_alloc', 'test_deallocations', 'test_context_stack', 'test_reset_device',
    'test_managed_alloc', 'test_cuda_devicerecord')] + ['numba.cuda.tests.cudapy.test_ipc']

# On the emulated driver: no kernels, no managed memory.
FAILS = {
    'test_context_stack.Test3rdPartyContext.test_cudajit_in_attached_primary_context',
    'test_cuda_devicerecord.TestRecordDtypeWithStructArrays.test_structured_array2',
    'test_cuda_devicerecord.TestRecordDtypeWithStructArrays.test_structured_array3',
    'test_cuda_devicerecord.TestRecordDtypeWithStructArrays.test_structured_array4',
    'test_cuda_memory.TestCudaMemory.test_managed_memory',
    'test_cuda_ndarray.TestCoreContiguous.test_device_array_like_2d_f_transpose',
    'test_cuda_ndarray.TestCoreContiguous.test_device_array_like_2d_transpose',
    'test_cuda_ndarray.TestCoreContiguous.test_kernel_with_buffer',
    'test_cuda_ndarray.TestCoreContiguous.test_kernel_with_strided_memory_view',
    'test_cuda_ndarray.TestCudaNDArray.test_devicearray_transpose_T',
    'test_cuda_ndarray.TestCudaNDArray.test_devicearray_transpose_ok',
    'test_cuda_ndarray.TestRecarray.test_recarray',
    'test_deallocations.TestDeallocation.test_del_managed_memory',
    'test_ipc.TestIpcMemory.test_ipc_array',
    'test_ipc.TestIpcMemory.test_ipc_handle',
    'test_ipc.TestIpcMemory.test_ipc_handle_serialization',
    'test_ipc.TestIpcStaged.test_ipc_array',
    'test_ipc.TestIpcStaged.test_staged',
    'test_managed_alloc.TestManagedAlloc.test_managed_alloc_driver_host_attach',
    'test_managed_alloc.TestManagedAlloc.test_managed_alloc_driver_undersubscribe',
    'test_managed_alloc.TestManagedAlloc.test_managed_array_attach_global',
    'test_managed_alloc.TestManagedAlloc.test_managed_array_attach_host',
}


def setUpModule():
    frameworks.python()
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Frameworks(unittest.TestCase):
    """Programs of a few lines under `python -m gpumem run`, and Numba's own tests."""

    def run_program(self, source, **more):
        """What it says, served."""
        program = MACHINE.folder / 'program.py'
        program.write_text(source)
        ran = MACHINE.run('-m', 'gpumem', 'run', program, python=frameworks.python(), timeout=180,
                          environment=MACHINE.with_driver() | {'GPUMEM_REQUIRED': '1'} | more)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout

    def test_numpy(self):
        self.assertEqual(self.run_program(NUMPY), 'right\n')

    def test_cupys_pinned_memory(self):
        self.assertEqual(self.run_program(CUPY), 'right\n')

    def test_cupys_out_of_memory(self):
        self.assertEqual(self.run_program(CUPY_REFUSED), 'right\n')

    def test_numba(self):
        self.assertEqual(self.run_program(NUMBA), 'right\n')

    def test_numbas_arrays_outlive_their_work_in_streams_of_others(self):
        for whose in ('external', 'core'):
            with self.subTest(whose):
                ran = frameworks.run_program(MACHINE, STREAMS.replace('WHOSE', repr(whose)))
                self.assertEqual((ran.stdout, ran.returncode), ('False\n', 0), ran.stderr)

    def run_numba(self, source, **more):
        """A program of its own; GPUMEM_VERBOSE has it told."""
        program = MACHINE.folder / 'program.py'
        program.write_text(source)
        return MACHINE.run('-m', 'gpumem', 'run', program, python=frameworks.python(), timeout=180,
                           environment=MACHINE.with_driver() | {'GPUMEM_VERBOSE': '1'} | more)

    def test_numba_is_told_of_when_it_is_served(self):
        ran = self.run_numba(MANAGER)
        self.assertEqual((ran.stdout, ran.returncode), ('gpumem.numba\n', 0), ran.stderr)
        self.assertEqual(ran.stderr, 'gpumem: numba: device and pinned memory of CUDA device 0\n')

    def test_numba_where_there_is_no_pool(self):
        other = f'devices=1,bytes=1GiB,dir={MACHINE.folder}/other'
        for more, why in (({'GPUMEM_EMULATOR': other}, 'gpumemd has no pool for CUDA device 0; '),
                          ({'GPUMEM_CUDA_LIBRARY': '/nowhere.so'}, 'no CUDA driver: ')):
            with self.subTest(**more):
                ran = self.run_numba(MANAGER, **more)
                self.assertEqual((ran.stdout, ran.returncode),
                                 ('numba.cuda.cudadrv.driver\n', 0), ran.stderr)
                self.assertTrue(ran.stderr.startswith(f'gpumem: numba keeps its own allocator: {why}'), ran.stderr)
                self.assertEqual(len(ran.stderr.splitlines()), 1)
                ran = self.run_numba(MANAGER, GPUMEM_REQUIRED='1', **more)
                self.assertEqual((ran.stdout, ran.returncode), ('', 125), ran.stderr)

    def test_a_program_may_fork_before_it_uses_numba(self):
        ran = self.run_numba(FORKS)
        self.assertEqual((ran.stdout, ran.returncode), ('0\n', 0), ran.stderr)

    def test_every_adapter_is_switched_off_alike(self):
        ran = MACHINE.run('-c', DISABLED, python=frameworks.python(),
                          environment=MACHINE.with_driver() | {'GPUMEM_DISABLE': '1'})
        self.assertEqual((ran.stdout, ran.stderr, ran.returncode), ('', '', 0))

    def test_numbas_handles_are_tokens(self):
        said = self.run_program(IPC, GPUMEM_NUMBA_SHAREABLE='1')
        self.assertEqual(said.splitlines(), [str(list(range(10))), str(list(range(4, 10)))])

    def test_numba_outlives_its_daemon(self):
        program = MACHINE.folder / 'outlives.py'
        program.write_text(OUTLIVES)
        machine = world.World(device_bytes='1GiB').start()
        self.addCleanup(machine.stop)
        with subprocess.Popen([frameworks.python(), '-m', 'gpumem', 'run', program], text=True,
                              env=machine.with_driver(), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ran:
            self.assertEqual(ran.stdout.readline(), 'holds\n')
            machine.kill()
            ran.stdin.write('\n')
            ran.stdin.flush()
            self.assertEqual(ran.stdout.readline(), 'has more of its block\n')
            machine.start()
            self.assertEqual(ran.stdout.readline(), 'True\n')
            machine.kill()
            said = ran.communicate('\n')[0]
        self.assertEqual(ran.returncode, 0, said)
        self.assertRegex(said, '^NoDaemon .*is gpumemd running')

    def outcomes(self, manager):
        """Of Numba's own tests."""
        into = MACHINE.folder / 'outcomes.json'
        into.unlink(missing_ok=True)
        environment = MACHINE.with_driver() | {'NUMBA_CUDA_MEMORY_MANAGER': manager}
        ran = MACHINE.run(world.PACKAGE_FOLDER.parent / 'tests' / 'python' / 'outcomes.py', into,
                          *MODULES, python=frameworks.python(), environment=environment,
                          timeout=600)
        self.assertTrue(into.exists(), ran.stderr)
        return json.loads(into.read_text())

    def test_numbas_own_tests(self):
        theirs, ours = self.outcomes('default'), self.outcomes('gpumem.numba')
        self.assertEqual({name for name in theirs if theirs[name] == 'fails'}, FAILS)
        self.assertEqual({name for name in ours if ours[name] == 'fails'}, FAILS)
        self.assertEqual(set(ours), set(theirs))
        self.assertGreater(sum(word == 'passes' for word in ours.values()), 120)

    def test_what_a_gpu_is_asked(self):
        """bench/python/measure.py finds figures; the times of an emulated driver mean nothing."""
        ran = MACHINE.run(world.PACKAGE_FOLDER.parent / 'bench' / 'python' / 'measure.py',
                          '--rounds', 1, 'pairs', python=frameworks.python(), timeout=180)
        self.assertIn('# figure: numba, an allocation of 4096 bytes and its end: own ', ran.stdout,
                      ran.stderr)
        lines = ran.stdout.splitlines()
        n_cases = sum(line.startswith(('ok ', 'not ok ')) for line in lines)
        self.assertEqual(lines[-1], f'1..{n_cases}', ran.stdout)


if __name__ == '__main__':
    unittest.main()
