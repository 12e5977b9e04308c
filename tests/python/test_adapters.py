# SPDX-License-Identifier: Apache-2.0
"""What frameworks call, as they call it: with the GIL, from any thread, beside captures."""

import ctypes
import os
import unittest

import world

MACHINE = world.World()


def setUpModule():
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


WAITS = '''
import sys, threading
import adapter_calls, gpumem, world
from gpumem import _library

cuda = world.Cuda()
cuda.make_current()
_library.load().adapters_set_wait_ms(60_000)
alloc, _ = adapter_calls.ends(sys.argv[1])
held = [gpumem.empty(60 << 20, device=0)]
waits = threading.Event()

def free():
    waits.wait()
    held.clear()

thread = threading.Thread(target=free)
thread.start()
# No thread takes the GIL from this one: it runs when this one lets go of it.
sys.setswitchinterval(1e6)
waits.set()
assert alloc(60 << 20)
print(len(held))
'''


FREES = '''
import ctypes, sys, threading
import adapter_calls, gpumem, world
from gpumem import _library

cuda = world.Cuda()
cuda.make_current()
alloc, free = adapter_calls.ends(sys.argv[1])
# The second allocation knows the heap of the default stream's handle.
held, address = alloc(8 << 20), alloc(8 << 20)
gate, entered, ran = threading.Event(), threading.Event(), []

def wait(unused):
    entered.set()
    gate.wait()
    ran.append(True)

function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(wait)
cuda.call("cuLaunchHostFunc", None, function, None)
entered.wait()
# No thread takes the GIL from this one: the stream goes on when this one lets go of it.
sys.setswitchinterval(1e6)
gate.set()
free(address)
print(len(ran), _library.load().adapters_failures())
'''


CONNECTS = '''
import os, socket, sys, threading
from gpumem import _library

# A gpumemd that answers nothing, in a thread that needs the GIL to hang up.
listens = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listens.bind(os.environ["GPUMEM_SOCKET"])
listens.listen()
library = _library.load()
library.adapters_set_wait_ms(0)
alloc = library.python_function(b"alloc")
accepted = []

def hang_up():
    connection = listens.accept()[0]
    accepted.append(True)
    connection.close()
    listens.close()

thread = threading.Thread(target=hang_up)
sys.setswitchinterval(1e6)
thread.start()
assert alloc(1000, 0, 0) < 4096
print(len(accepted))
'''

RECORDS = '''
import os, pathlib, sys, threading, time
import adapter_calls, world

cuda = world.Cuda()
cuda.make_current()
alloc, free = adapter_calls.ends(sys.argv[1], cuda.stream(1))
for address in [alloc(8 << 20) for _ in range(4)]:
    free(address)
held = [alloc(8 << 20) for _ in range(3)]
faults, begun, ran = pathlib.Path(sys.argv[2]), threading.Event(), []
faults.with_suffix(".new").write_text(f"pid={os.getpid()}\\ndelay=cuEventRecord:700000\\n")
faults.with_suffix(".new").rename(faults)
time.sleep(0.05)  # until it is read
thread = threading.Thread(target=lambda: begun.wait() and ran.append(True))
thread.start()
# No thread takes the GIL from this one: the other one runs when this one lets go of it.
sys.setswitchinterval(1e6)
begun.set()
for address in held:
    free(address)
print(len(ran))
faults.unlink()
'''

# An allocation records events, too: for frees that named no stream, and for a round that a capture held up.
RECORDS_LATER = '''
import ctypes, os, pathlib, sys, threading, time
import gpumem, world
from gpumem import _library

cuda = world.Cuda()
cuda.make_current()
library = _library.load()
whose, what, faults = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
registered, graph = cuda.stream(1), ctypes.c_void_p()
stream = cuda.stream(1) if what == "frees" else 0
gives = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
current = ctypes.cast(ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: stream), ctypes.c_void_p)
of_cupy = gives(library.address("gpumem_cupy_alloc"))
of_python, free = [library.python_function(name) for name in (b"alloc", b"free")]
alloc = (lambda n: of_cupy(current, n, 0)) if whose == "cupy" else (lambda n: of_python(n, 0, stream))
held = [alloc(8 << 20) for _ in range(4)]
if what == "round":
    gpumem.stream_register(registered)
    cuda.call("cuStreamBeginCapture_v2", ctypes.c_void_p(registered), 2)
    for address in held:
        free(address, stream)
    cuda.call("cuStreamEndCapture", ctypes.c_void_p(registered), ctypes.byref(graph))
begun, ran = threading.Event(), []
faults.with_suffix(".new").write_text(f"pid={os.getpid()}\\ndelay=cuEventRecord:700000\\n")
faults.with_suffix(".new").rename(faults)
time.sleep(0.05)  # until it is read
thread = threading.Thread(target=lambda: begun.wait() and ran.append(True))
thread.start()
# No thread takes the GIL from this one: the other one runs when this one lets go of it.
sys.setswitchinterval(1e6)
if what == "frees":  # not earlier: the service thread would have the next call record
    for address in held:
        library.free_in_order(None, address)
begun.set()
alloc(1 << 20)
print(len(ran))
faults.unlink()
'''

# As mod_wsgi does it: then PyGILState_Check() says yes in every thread.
SUBINTERPRETER = '''
import ctypes, os
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

library = ctypes.CDLL(os.environ["GPUMEM_LIBRARY"])  # calls without the GIL
library.gpumem_cupy_alloc.restype = ctypes.c_void_p
library.gpumem_cupy_alloc.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
library.gpumem_cupy_free.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
library.gpumem_cupy_free(None, library.gpumem_cupy_alloc(None, 1 << 20, 0), 0)
made = interpreters.create()
library.gpumem_cupy_free(None, library.gpumem_cupy_alloc(None, 1 << 24, 0), 0)
print("lives")
'''


class Adapters(unittest.TestCase):
    """What frameworks call, as they call it."""

    def test_a_stream_gets_the_gil_while_a_free_waits_for_it(self):
        for whose in ('cupy', 'python', 'torch'):
            for setting in ({'GPUMEM_CACHE_SIZE': '0'}, {'GPUMEM_DEBUG': 'guard'}):
                with self.subTest((whose, setting)):
                    ran = MACHINE.run('-c', FREES, whose, cwd=os.path.dirname(world.__file__),
                                      environment=MACHINE.environment | setting, timeout=20)
                    self.assertEqual((ran.stdout, ran.stderr), ('1 0\n', ''))

    def test_other_threads_run_while_an_allocation_waits(self):
        for whose in ('cupy', 'python', 'torch'):
            with self.subTest(whose):
                ran = MACHINE.run('-c', WAITS, whose, cwd=os.path.dirname(world.__file__))
                self.assertEqual((ran.stdout, ran.stderr), ('0\n', ''))

    def test_memory_of_the_default_stream_is_freed_beside_a_capture(self):
        """As RMM and cuda.core free it: a blocking stream that captures locks the default stream."""
        import gpumem
        from gpumem import _stream_memory
        cuda = world.Cuda()
        cuda.make_current()
        alloc, free = _stream_memory.ends(0)
        address, blocking, graph = alloc(1000, 0), cuda.stream(), ctypes.c_void_p()
        cuda.call('cuStreamBeginCapture_v2', ctypes.c_void_p(blocking), 2)
        free(address, 0)
        cuda.call('cuStreamEndCapture', ctypes.c_void_p(blocking), ctypes.byref(graph))
        cuda.call('cuGraphDestroy', graph)
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(address)

    def test_pythons_functions(self):
        import gpumem
        from gpumem import _errors, _library
        world.Cuda().make_current()
        alloc, free = map(_library.load().python_function, (b'alloc', b'free'))
        address = alloc(1000, 0, 0)
        self.assertEqual(gpumem.describe(address).requested_bytes, 1000)
        self.assertEqual([free(address, 0), free(address, 0), free(0, 0)], [0, _errors.NOT_OURS, 0])
        self.assertEqual([alloc(0, 0, 0), alloc(1000, 1 << 31, 0)], [0, _errors.BAD_REQUEST])
        self.assertGreater(alloc(1000, 77, 0), 0)
        self.assertLess(alloc(1000, 77, 0), 4096)
        for wrong, arguments in ((TypeError, (1, 2)), (TypeError, (1.5, 0, 0)), (TypeError, ('1', 0, 0)),
                                 (OverflowError, (-1, 0, 0)), (OverflowError, (1 << 64, 0, 0))):
            with self.assertRaises(wrong):
                alloc(*arguments)
        with self.assertRaises(TypeError):
            free(address)
        with self.assertRaises(TypeError):
            _library.load().python_function(b'other')

    def test_other_threads_run_while_an_allocation_connects(self):
        ran = MACHINE.run('-c', CONNECTS, environment=MACHINE.environment | {
            'GPUMEM_SOCKET': str(MACHINE.folder / 'silent.sock')})
        self.assertEqual((ran.stdout, ran.stderr), ('1\n', ''))

    def test_other_threads_run_while_a_free_records_an_event(self):
        for whose in ('cupy', 'python', 'torch'):
            with self.subTest(whose):
                ran = MACHINE.run('-c', RECORDS, whose, MACHINE.folder / 'devices' / 'faults',
                                  cwd=os.path.dirname(world.__file__))
                self.assertEqual((ran.stdout, ran.stderr), ('1\n', ''))

    def test_a_pool_of_torchs_keeps_the_gil(self):
        """Torch calls for it with a lock held, for which a thread with the GIL may wait."""
        ran = MACHINE.run('-c', RECORDS, 'pool', MACHINE.folder / 'devices' / 'faults',
                          cwd=os.path.dirname(world.__file__))
        self.assertEqual((ran.stdout, ran.stderr), ('0\n', ''))

    def test_other_threads_run_while_an_allocation_records_an_event(self):
        for whose, what in (('cupy', 'frees'), ('cupy', 'round'), ('python', 'round')):
            with self.subTest((whose, what)):
                ran = MACHINE.run('-c', RECORDS_LATER, whose, what, MACHINE.folder / 'devices' / 'faults',
                                  cwd=os.path.dirname(world.__file__))
                self.assertEqual((ran.stdout, ran.stderr), ('1\n', ''))

    def test_beside_a_subinterpreter_no_gil_is_released_that_the_thread_has_not(self):
        ran = MACHINE.run('-c', SUBINTERPRETER)
        self.assertEqual((ran.stdout, ran.returncode), ('lives\n', 0), ran.stderr)


if __name__ == '__main__':
    unittest.main()
