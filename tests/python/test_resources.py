# SPDX-License-Identifier: Apache-2.0
"""RMM and cuda.core over the emulated driver.

RMM's CUDA runtime does not run there: it copies nothing, and each buffer is given its resource."""

import json
import unittest

import frameworks
import world

MACHINE = world.World(device_bytes='1GiB', pinned_bytes='64MiB')

# Of memory that is freed in a stream whose work waits for `gate`, only that stream has the use.
GATE = '''
import ctypes, gc, os, threading
import gpumem
import world

cuda = world.Cuda()
cuda.make_current()
gate = threading.Event()
wait_for_gate = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda unused: gate.wait())

class Stream:
    def __init__(self):
        self.handle = cuda.stream(1)  # of no default stream's order
    def __cuda_stream__(self):
        return (0, self.handle)
    def wait_for_gate(self):
        cuda.call("cuLaunchHostFunc", ctypes.c_void_p(self.handle), wait_for_gate, None)

def requested(device=0):
    gc.collect()
    return gpumem.stats(device).requested_bytes
'''

RMM = GATE + '''
import rmm, rmm.mr

mine = [rmm.mr.get_per_device_resource(device) for device in (0, 1)]
assert all(type(of_device) is rmm.mr.CallbackMemoryResource for of_device in mine)
buffers = []
for device in (1, 0):
    cuda.make_current(device)
    buffers.append(rmm.DeviceBuffer(size=1000, mr=mine[device]))
    assert gpumem.describe(buffers[-1].ptr).place == device
assert [requested(device) for device in (0, 1)] == [1000, 1000], "each device has its own"
buffers.pop()
cuda.make_current(1)
buffers.pop()
assert requested() + requested(1) == 0
cuda.make_current(0)

busy, idle = Stream(), Stream()
first, second = (rmm.pylibrmm.stream.Stream(stream) for stream in (busy, idle))
memory = mine[0].allocate(1 << 20, first)
busy.wait_for_gate()
mine[0].deallocate(memory, 1 << 20, first)
other = mine[0].allocate(1 << 20, second)
assert other != memory, "its work is not over"
assert mine[0].allocate(1 << 20, first) == memory, "in its own order it is free"
gate.set()
mine[0].deallocate(memory, 1 << 20, first)
mine[0].deallocate(other, 1 << 20, second)

counted = rmm.mr.StatisticsResourceAdaptor(gpumem.rmm.resource())
held = rmm.DeviceBuffer(size=500, mr=counted)
assert counted.allocation_counts.current_bytes == 500 and requested() == 500
del held
assert requested() == 0
assert gpumem.rmm.resource().allocate(0) == 0, "no bytes, no memory"

try:
    rmm.DeviceBuffer(size=1 << 40, mr=mine[0])
    raise AssertionError
except MemoryError as error:
    assert "1.00 TiB" in str(error), error

def elsewhere():
    cuda.make_nothing_current()
    held = rmm.DeviceBuffer(size=300, mr=mine[0])
    assert requested() == 300
    del held
    assert requested() == 0
    took.append(True)

took = []
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert took, "a thread without a context"
print("right")
'''

RMM_FREES = GATE + '''
import rmm.mr

resource = rmm.mr.get_per_device_resource(0)
theirs = resource.allocate(1000)
if os.fork() == 0:
    resource.deallocate(theirs, 1000)  # the child has not the memory: no error
    os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
assert requested() > 0
resource.deallocate(theirs, 1000)
try:
    resource.deallocate(theirs, 1000)
    raise AssertionError
except SystemError:  # RMM's form for all that is raised there
    print("refused")
'''

CUDA_CORE_KEEPS = """
from cuda.core import Device
import sys
print("imported", flush=True)
device = Device(0)
device.set_current()
first = device.memory_resource
print("gpumem" in type(first).__module__, device.memory_resource is first, flush=True)
"""

CUDA_CORE = GATE + """
from cuda.core import Buffer, Device, MemoryResource
from cuda.core._utils.cuda_utils import CUDAError

device = Device(0)
device.set_current()
assert type(device.memory_resource) is gpumem.cuda_core.Resource
mine = Stream()
first, second = device.create_stream(mine), device.create_stream()
buffer = device.allocate(1000, stream=first)
assert requested() == 1000 and buffer.device_id == 0 and buffer.is_device_accessible
assert not buffer.is_host_accessible and not buffer.is_managed
staging = gpumem.pinned(1000)
host = Buffer.from_handle(staging.pointer, 1000, owner=staging)
buffer.fill(7, stream=first)
buffer.copy_to(host, stream=first)
first.sync()
assert ctypes.string_at(staging.pointer, 1000) == bytes([7]) * 1000
buffer.close()
assert requested() == 0
empty = device.allocate(0, stream=first)
empty.close()

memory = device.allocate(1 << 20, stream=first)
address = int(memory.handle)
mine.wait_for_gate()
memory.close()  # in the order of the stream that it was made for
other = device.allocate(1 << 20, stream=second)
again = device.allocate(1 << 20, stream=first)
assert int(other.handle) != address and int(again.handle) == address
gate.set()
other.close(first)  # of another stream
del again
assert requested() == 0

try:
    device.allocate(1 << 40, stream=first)
    raise AssertionError
except CUDAError as error:
    assert isinstance(error, gpumem.OutOfMemory) and "1.00 TiB" in str(error), error

builder = device.create_graph_builder()
builder.begin_building()
inside = device.allocate(4096, stream=builder)
address = int(inside.handle)
inside.fill(1, stream=builder)
inside.close()
assert int(device.allocate(4096, stream=builder).handle) == address, "in the graph's order it is free"
builder.end_building()
assert int(device.allocate(4096, stream=first).handle) != address, "the memory is the graph's"

def elsewhere():
    there = Device(1)
    assert there is not Device(0) and Device(0) is not device, "a thread has Devices of its own"
    there.set_current()
    assert there.allocate(500, stream=there.default_stream).memory_resource.device_id == 1
    there.memory_resource = gpumem.cuda_core.Resource(1)
    took.append(requested(1))

took = []
thread = threading.Thread(target=elsewhere)
thread.start()
thread.join()
assert took == [0], took

class Own(MemoryResource):
    pass

other = Own()
device.memory_resource = other
assert device.memory_resource is other, "a program sets its own as before"
print("right")
"""


def setUpModule():
    frameworks.python()
    MACHINE.start()


def tearDownModule():
    MACHINE.stop()


class Rmm(unittest.TestCase):
    """gpumem.rmm as `python -m gpumem run` installs it."""

    def test_resources(self):
        ran = frameworks.run_program(MACHINE, RMM)
        self.assertEqual((ran.stdout, ran.returncode), ('right\n', 0), ran.stderr)

    def test_what_cannot_be_freed(self):
        ran = frameworks.run_program(MACHINE, RMM_FREES)
        self.assertEqual((ran.stdout, ran.returncode), ('refused\n', 0), ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertIn('gpumem: memory could not be freed: ', ran.stderr)


class CudaCore(unittest.TestCase):
    """gpumem.cuda_core as `python -m gpumem run` installs it."""

    def test_buffers(self):
        ran = frameworks.run_program(MACHINE, CUDA_CORE)
        self.assertEqual((ran.stdout, ran.returncode), ('right\n', 0), ran.stderr)


    def test_where_there_is_no_pool(self):
        other = f'devices=1,bytes=1GiB,dir={MACHINE.folder}/other'
        ran = frameworks.run_program(MACHINE, CUDA_CORE_KEEPS, GPUMEM_EMULATOR=other, GPUMEM_REQUIRED='0')
        self.assertEqual((ran.stdout, ran.returncode), ('imported\nFalse True\n', 0), ran.stderr)
        self.assertTrue(ran.stderr.startswith('gpumem: cuda_core keeps its own allocator: '), ran.stderr)
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        ran = frameworks.run_program(MACHINE, CUDA_CORE_KEEPS, GPUMEM_EMULATOR=other)
        self.assertEqual((ran.stdout, ran.returncode), ('imported\n', 125), ran.stderr)


class Doctor(unittest.TestCase):
    """python -m gpumem doctor, where these frameworks are installed."""

    def test_each_framework_is_named(self):
        ran = MACHINE.run('-m', 'gpumem', 'doctor', '--json', python=frameworks.python(),
                          environment=MACHINE.with_driver())
        texts = {check['name']: check['text'] for check in json.loads(ran.stdout)['checks']}
        for distribution, adapter in (('rmm-cu13', 'rmm'), ('cuda-core', 'cuda_core'),
                                      ('cupy-cuda13x', 'cupy'), ('numba-cuda', 'numba')):
            self.assertIn(f'gpumem.{adapter}.install()', texts[distribution])


if __name__ == '__main__':
    unittest.main()
