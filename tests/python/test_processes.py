# SPDX-License-Identifier: Apache-2.0
"""Forked children, and memory that processes share by tokens."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import unittest

import world

MACHINE = world.World()

READER = '''
import ctypes, sys, gpumem
buffer = gpumem.attach(sys.argv[1], (250,), "f4", device=1)
assert type(buffer).__name__ == sys.argv[2] and buffer.nbytes == 1000, buffer
if buffer.kind == "pinned":
    data = ctypes.string_at(buffer.pointer, 1000)
else:
    import world
    cuda = world.Cuda()
    cuda.make_current(buffer.device)
    data = cuda.read(buffer.pointer, 1000)
assert data == b"\\5" * 1000
try:
    gpumem.attach(sys.argv[1], 10**9)
    raise AssertionError
except ValueError:
    pass
del buffer
print("read")
'''


def setUpModule():
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


def in_child(work):
    """Runs `work` in a forked child; gives its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def clients():
    """How many clients the daemon has."""
    return len(MACHINE.ctl('clients')['clients'])


class Forks(unittest.TestCase):
    """A child has a client of its own, and none of its parent's memory."""

    def test_a_child_allocates(self):
        import gpumem
        mine = gpumem.pinned(1000)
        ctypes.memset(mine.pointer, 1, 1000)

        def work():
            made = [gpumem.pinned(1000) for _ in range(10)]
            for buffer in made:
                ctypes.memset(buffer.pointer, 2, 1000)
            assert gpumem.stats(kind='pinned').requested_bytes == 10_000
        self.assertEqual(in_child(work), 0)
        self.assertEqual(ctypes.string_at(mine.pointer, 1000), b'\1' * 1000)
        self.assertEqual(gpumem.stats(kind='pinned').requested_bytes, 1000)

    def test_a_child_frees_nothing_of_its_parent(self):
        import gpumem
        mine = [gpumem.pinned(1000) for _ in range(4)]

        def work():
            made = [gpumem.pinned(1000) for _ in range(4)]  # perhaps at the same addresses
            mine[0].free()
            mine.clear()
            assert gpumem.stats(kind='pinned').requested_bytes == 4000
            made.clear()
            assert gpumem.stats(kind='pinned').requested_bytes == 0
        self.assertEqual(in_child(work), 0)
        self.assertEqual(gpumem.stats(kind='pinned').requested_bytes, 4000)

    def test_a_child_of_a_child(self):
        import gpumem
        gpumem.connect()

        def work():
            gpumem.pinned(10)
            assert in_child(lambda: gpumem.pinned(10)) == 0
        self.assertEqual(in_child(work), 0)


    def test_a_child_has_the_locks_that_other_threads_had(self):
        import gpumem
        from gpumem import _buffer, _library
        gpumem.connect()
        holds, over = threading.Event(), threading.Event()

        def hold():
            with _library._lock, _buffer._free_lock:
                holds.set()
                over.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        holds.wait()

        def work():
            signal.alarm(world.SECONDS)
            _library._loaded = None  # as in a process that has not loaded it yet
            gpumem.pinned(1000).free()
        try:
            self.assertEqual(in_child(work), 0)
        finally:
            over.set()
            thread.join()


class Tokens(unittest.TestCase):
    """One memory, several processes."""

    def read_elsewhere(self, token, kind):
        ran = subprocess.run([sys.executable, '-c', READER, token, kind], capture_output=True,
                             text=True, cwd=os.path.dirname(world.__file__), check=False)
        self.assertEqual((ran.stdout, ran.stderr), ('read\n', ''))

    def test_device_memory(self):
        import gpumem
        cuda = world.Cuda()
        cuda.make_current(1)
        buffer = gpumem.empty(1000, device=1, shareable=True)
        cuda.fill(buffer.pointer, 5, 1000)
        cuda.call('cuCtxSynchronize')
        self.read_elsewhere(gpumem.share(buffer), 'DeviceBuffer')

    def test_pinned_memory(self):
        import gpumem
        buffer = gpumem.pinned(1000, shareable=True)
        ctypes.memset(buffer.pointer, 5, 1000)
        self.read_elsewhere(gpumem.share(buffer), 'PinnedBuffer')

    def test_here(self):
        import gpumem
        buffer = gpumem.pinned(1000, shareable=True)
        token = gpumem.share(buffer)
        self.assertRegex(token, '^[0-9a-f]{32}$')
        again = gpumem.attach(token)
        ctypes.memset(again.pointer, 9, 1000)
        self.assertEqual(ctypes.string_at(buffer.pointer, 1000), b'\x09' * 1000)
        self.assertTrue(gpumem.describe(again).is_attached)
        gpumem.unshare(token)
        with self.assertRaises(gpumem.NotOurs):
            gpumem.attach(token)
        del again
        self.assertEqual(ctypes.string_at(buffer.pointer, 1000), b'\x09' * 1000)

    def test_no_context_is_needed(self):
        """As for the attach: neither its thread nor the one that drops it has one."""
        import gpumem
        cuda = world.Cuda()
        cuda.make_current(1)
        buffer = gpumem.empty(1000, device=1, shareable=True)
        token = gpumem.share(buffer)
        cuda.make_nothing_current()
        again = gpumem.attach(token, device=1)
        pointer = again.pointer
        again.free()
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(pointer)
        cuda.make_current(1)

    def test_the_end_waits_for_what_other_libraries_do(self):
        import gpumem
        from gpumem import _dlpack
        cuda = world.Cuda()
        cuda.make_current(1)
        stream = cuda.stream(1)  # of no default stream's order
        owner = gpumem.empty(4 << 20, device=1, shareable=True)
        buffer = gpumem.attach(gpumem.share(owner))
        pointer, gate, done, ended = buffer.pointer, threading.Event(), [], threading.Event()

        def work(unused):
            gate.wait()
            done.append('work')
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(work)
        consumers = [_dlpack.take(buffer, stream)]
        del buffer
        cuda.call('cuLaunchHostFunc', ctypes.c_void_p(stream), function, None)
        cuda.fill(pointer, 7, 4 << 20, stream)

        def drop():
            consumers.clear()
            done.append('end')
            ended.set()
        thread = threading.Thread(target=drop)
        thread.start()
        ended.wait(0.5)  # the end comes now, if it does not wait
        gate.set()
        thread.join()
        cuda.call('cuStreamSynchronize', ctypes.c_void_p(stream))
        self.assertEqual(done, ['work', 'end'])
        with self.assertRaises(gpumem.NotOurs):
            gpumem.describe(pointer)
        self.assertEqual(cuda.read(owner.pointer, 4 << 20), b'\7' * (4 << 20))

    def ends_before_the_work(self, stream, *, is_exported):
        """Whether memory of device 1, attached and let go of by threads with device 0's context, ends under its work."""
        import gpumem
        cuda = world.Cuda()
        cuda.make_current(1)
        gate, done = threading.Event(), []
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
            lambda unused: gate.wait() and done.append('work'))
        owner = gpumem.empty(1000, device=1, shareable=True)
        token = gpumem.share(owner)
        cuda.make_current(0)
        buffer = gpumem.attach(token, device=1)
        cuda.make_current(1)
        if is_exported:
            buffer.__dlpack__(stream=-1)
        handle = ctypes.c_void_p(cuda.stream(1) if stream == 'non-blocking' else 0)
        cuda.call('cuLaunchHostFunc', handle, function, None)

        def end():
            cuda.make_current(0)
            buffer.free()
            done.append('end')
        thread = threading.Thread(target=end)
        thread.start()
        thread.join(0.5)  # the end comes now, if it does not wait
        gate.set()
        thread.join()
        cuda.call('cuCtxSynchronize')
        return done != ['work', 'end']

    def test_the_end_waits_for_the_memorys_device(self):
        """Whatever device's context the thread has."""
        self.assertFalse(self.ends_before_the_work('non-blocking', is_exported=True))
        self.assertFalse(self.ends_before_the_work('default', is_exported=False))

    def test_a_wrong_call_attaches_nothing(self):
        import gpumem
        buffer = gpumem.pinned(4 << 20, shareable=True)
        token = gpumem.share(buffer)

        def holders():
            return [block['holders_count'] for block in MACHINE.ctl('blocks')['blocks']]
        before = holders()
        for wrong in ({'stream': 'default'}, {'dtype': 'f3'}, {'shape': 'x'}, {'device': 'x'}):
            with self.assertRaises((TypeError, ValueError)):
                gpumem.attach(token, **wrong)
        self.assertEqual(holders(), before)
        buffer.free()

    def test_refusals(self):
        import gpumem
        with self.assertRaises(gpumem.NotOurs):
            gpumem.share(gpumem.pinned(1000))
        with self.assertRaises(gpumem.NotOurs):
            gpumem.attach('0' * 32)
        with self.assertRaises(ValueError):
            gpumem.attach('guess')
        buffer = gpumem.pinned(1000, shareable=True)
        with self.assertRaises(ValueError):
            gpumem.share(buffer, keep=61)

    def test_keep(self):
        import gpumem
        buffer = gpumem.pinned(1000, shareable=True)
        ctypes.memset(buffer.pointer, 5, 1000)
        try:
            token = gpumem.share(buffer, keep=60)
        except gpumem.Unsupported as error:
            self.assertIn('Keep the buffer', str(error))
            self.skipTest(str(error))
        del buffer
        self.read_elsewhere(token, 'PinnedBuffer')


if __name__ == '__main__':
    unittest.main()
