# SPDX-License-Identifier: Apache-2.0
"""gpumem.warp over the emulated driver: with a stub of Warp, and with GPUMEM_TEST_LARGE=1 with Warp itself.

Warp's CUDA runtime does not run there, so arrays are made and dropped, and nothing is launched.
"""

import json
import os
import pathlib
import unittest

import frameworks
import world

MACHINE = world.World(device_bytes='1GiB', pinned_bytes='64MiB')
STUBS = pathlib.Path(__file__).parent / 'stubs'

PROGRAM = '''
import ctypes, gc, sys, threading, types
import warp as wp
import gpumem
import world

cuda = world.Cuda()
gate = threading.Event()
wait_for_gate = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda unused: gate.wait())

def close_gate(stream):
    gate.clear()
    cuda.call("cuLaunchHostFunc", ctypes.c_void_p(stream.cuda_stream), wait_for_gate, None)

def open_gate(stream):
    gate.set()
    cuda.call("cuStreamSynchronize", ctypes.c_void_p(stream.cuda_stream))

def requested(ordinal=0):
    gc.collect()
    gpumem.flush()
    return gpumem.stats(ordinal).requested_bytes

def make(n_bytes, device="cuda:0"):
    shape = (n_bytes,) if n_bytes < 1 << 31 else (n_bytes >> 20, 1 << 20)
    return wp.empty(shape, dtype=wp.uint8, device=device)

class Capture:
    def __enter__(self):
        self.stream = ctypes.c_void_p(wp.get_device("cuda:0").stream.cuda_stream)
        cuda.call("cuStreamBeginCapture_v2", self.stream, 1)
    def __exit__(self, *unused):
        self.graph = ctypes.c_void_p()
        cuda.call("cuStreamEndCapture", self.stream, ctypes.byref(self.graph))
    def destroy(self):
        cuda.call("cuGraphDestroy", self.graph)

assert wp._src.context.runtime is None, "programs call warp.init()"
wp.init()
device = wp.get_device("cuda:0")
cuda.make_current()
assert type(wp.get_device_allocator(device)) is gpumem.warp.Allocator
both = [make(1000), make(1000, "cuda:1")]
assert gpumem.stats(0).requested_bytes == gpumem.stats(1).requested_bytes == 1000
assert gpumem.describe(both[1].ptr).place == 1
del both
assert requested() == requested(1) == 0
assert not make(0).ptr

# One stream: memory is free at once in its order, in captures too.
mine = device.stream
close_gate(mine)
first = make(1 << 20)
address = first.ptr
del first
assert make(1 << 20).ptr == address
open_gate(mine)
capture = Capture()
with capture:
    inside = make(8192)
    address = inside.ptr
    del inside
    assert make(8192).ptr == address, "in the graph's order"
outside = make(8192)
assert outside.ptr != address, "it is the graph's"
capture.destroy()
del outside

sys.modules["cupy"] = types.ModuleType("cupy")  # its streams are not known
array = make(1 << 20)
address = array.ptr
close_gate(mine)
del array
early = make(1 << 20)
assert early.ptr != address, "work that other streams might have is not over"
open_gate(mine)
del early, sys.modules["cupy"]
assert requested() == 0

# Several: what ends waits for all of them.
other = wp.Stream(device)
shared = make(1 << 20)
address = shared.ptr
close_gate(other)  # it might read the array
del shared
early = make(1 << 20)
assert early.ptr != address, "the other stream's work is not over"
open_gate(other)
del early
assert requested() == 0
before = make(4096)
with wp.ScopedStream(other):
    before_too = make(4096)
capture = Capture()
with capture:
    del before, before_too
    inside = make(8192)
    address = inside.ptr
    del inside
    again = make(8192)
    assert again.ptr != address, "another stream of the capture might read it"
    del again
outside = [make(8192) for _ in range(4)]
assert address not in [array.ptr for array in outside]
del outside
assert requested() == 0
capture.destroy()

with wp.ScopedStream(other):
    theirs = make(500)
del theirs
assert requested() == 0

try:
    make(1 << 40)
    raise AssertionError
except RuntimeError as error:
    assert isinstance(error, MemoryError) and "1.00 TiB" in str(error), error

def elsewhere():
    cuda.make_nothing_current()
    held.pop()
held = [make(700)]
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert requested() == 0, "an array's end on a thread without a context"

kept = make(600)
wp.set_cuda_allocator(None)
assert type(wp.get_device_allocator(device)) is not gpumem.warp.Allocator
del kept
assert requested() == 0, "it goes back to where it came from"
wp.set_device_allocator(device, gpumem.warp.Allocator(device))
assert "before" in gpumem.warp.install()
kept = make(600)
print("right")
'''

# What ended while a stream captured is held. The free of one fails once.
HELD = '''
import ctypes, gc, os, pathlib, time
import warp as wp
import gpumem
import world

wp.init()
cuda = world.Cuda()
cuda.make_current()
device = wp.get_device("cuda:0")
other = wp.Stream(device)

def make(n_bytes):
    return wp.empty((n_bytes,), dtype=wp.uint8, device="cuda:0")

arrays = [make(1 << 20) for _ in range(5)]
stream, graph = ctypes.c_void_p(device.stream.cuda_stream), ctypes.c_void_p()
cuda.call("cuStreamBeginCapture_v2", stream, 1)
del arrays
gc.collect()
cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
cuda.call("cuGraphDestroy", graph)
faults = pathlib.Path(os.environ["FAULTS"])
faults.with_suffix(".new").write_text(f"pid={os.getpid()}\\nfail=cuStreamGetId:1:999\\n")
faults.with_suffix(".new").rename(faults)
time.sleep(0.05)  # until it is read
made = make(4096)
faults.unlink()
time.sleep(0.05)
for _ in range(3):
    made = make(4096)
del made
gc.collect()
gpumem.flush()
print(gpumem.stats(0).requested_bytes)
'''

LATE = '''
import warp as wp
wp.init()
import gpumem
import gpumem.warp
print(gpumem.warp.install())
array = wp.empty((100,), dtype=wp.uint8, device="cuda:1")
assert gpumem.stats(1).requested_bytes == 100
del array
gpumem.flush()
assert gpumem.stats(1).requested_bytes == 0
try:
    gpumem.warp.Allocator("cpu")
except gpumem.Unsupported as error:
    print(error)
'''

# On the emulated driver: no pinned memory of Warp's, no managed memory, no copies by RMM.
FAILS = {f'test_allocator.{name}' for name in (
    'TestAllocatorProtocol.test_public_memory_kind_for_cpu_arrays',
    'TestCustomAllocator.test_managed_allocator_failure_uses_native_error_only',
    'TestRmmAllocator.test_rmm_allocator_basic_cuda_0',
    'TestRmmAllocator.test_rmm_allocator_double_free_cuda_0',
    'TestRmmAllocator.test_rmm_allocator_multi_gpu')}


def setUpModule():
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Warp:
    """The same programs for the stub and for Warp."""

    def test_arrays(self):
        ran = self.run_program(PROGRAM)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.splitlines()[-1], 'right')
        self.assertNotIn('could not be freed', ran.stderr)

    def test_a_free_that_fails_loses_no_memory(self):
        ran = self.run_program(HELD, FAULTS=str(MACHINE.folder / 'devices' / 'faults'))
        self.assertEqual((ran.returncode, ran.stdout.splitlines()[-1:]), (0, ['0']), ran.stderr)
        self.assertEqual(ran.stderr.count('could not be freed'), 1, ran.stderr)

    def test_installed_late(self):
        ran = self.run_program(LATE)
        self.assertEqual(ran.stdout.splitlines()[-2:], [
            'arrays on CUDA devices, as before',
            'cpu is not a CUDA device: gpumem.warp has no other memory'], ran.stderr)


class Stub(Warp, unittest.TestCase):
    """tests/python/stubs/warp"""

    def run_program(self, source, **more):
        return frameworks.run_program(MACHINE, source, folders=[STUBS], **more)


@unittest.skipUnless(os.environ.get('GPUMEM_TEST_LARGE') == '1', 'Warp has 149 MB: make frameworks')
class Itself(Warp, unittest.TestCase):
    """The wheel."""

    def run_program(self, source, **more):
        return frameworks.run_program(MACHINE, source, large=True, **more)

    def outcomes(self, whose):
        """Of Warp's own tests of allocators."""
        into = MACHINE.folder / 'outcomes.json'
        into.unlink(missing_ok=True)
        folder = pathlib.Path(__file__).parent
        environment = MACHINE.with_driver()
        environment['PYTHONPATH'] += os.pathsep + str(folder)
        ran = MACHINE.run(folder / 'warp_suite.py', whose, into, environment=environment, timeout=180,
                          python=frameworks.python(large=True))
        self.assertTrue(into.exists(), ran.stderr)
        return json.loads(into.read_text())

    def test_warps_own_tests(self):
        theirs, ours = self.outcomes('own'), self.outcomes('gpumem')
        self.assertEqual(set(ours), set(theirs))
        self.assertEqual({name for name in ours if ours[name] == 'fails'}, FAILS)
        self.assertEqual({name for name in ours if theirs[name] == 'passes' and ours[name] != 'passes'}, set())
        self.assertGreater(sum(word == 'passes' for word in ours.values()), 18)


if __name__ == '__main__':
    unittest.main()
