# SPDX-License-Identifier: Apache-2.0
"""DLPack in both directions, consumed by hand: whose memory it is, how long, in what order."""

import ctypes
import gc
import operator
import subprocess
import sys
import threading
import unittest

import world

MACHINE = world.World()


def setUpModule():
    world.enter(MACHINE.start())


def tearDownModule():
    MACHINE.stop()


class Exporter:
    """An exporter over a Buffer, of one protocol version."""

    def __init__(self, buffer, knows_versions=True):
        self.buffer, self.knows_versions, self.streams = buffer, knows_versions, []

    def __dlpack_device__(self):
        return self.buffer.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **options):
        if options and not self.knows_versions:
            raise TypeError('max_version')
        self.streams.append(stream)
        return self.buffer.__dlpack__(stream=stream, **options)


class Capsules(unittest.TestCase):
    """What the package gives."""

    @classmethod
    def setUpClass(cls):
        import gpumem
        from gpumem import _dlpack
        cls.gpumem, cls.dlpack = gpumem, _dlpack
        cls.cuda = world.Cuda()
        cls.cuda.make_current()

    def address(self, made):
        """Of the tensor in a capsule."""
        return self.dlpack._get_pointer(id(made), b'dltensor_versioned')

    def requested(self):
        gc.collect()
        return self.gpumem.stats(0).requested_bytes

    def test_versions(self):
        buffer = self.gpumem.empty(8)
        for asked, name in ((None, '"dltensor"'), ((0, 8), '"dltensor"'),
                            ((1, 0), '"dltensor_versioned"'), ((1, 3), '"dltensor_versioned"')):
            self.assertIn(name, repr(buffer.__dlpack__(max_version=asked)))

    def test_devices(self):
        self.assertEqual(self.gpumem.empty(8, device=1).__dlpack_device__(), (2, 1))
        self.assertEqual(self.gpumem.pinned(8).__dlpack_device__(), (3, 0))

    def test_an_unused_capsule_ends(self):
        before = self.requested()
        for version in (None, (1, 0)):
            made = self.gpumem.empty(1000).__dlpack__(max_version=version)
            self.assertEqual(self.requested(), before + 1000)
            del made
            self.assertEqual(self.requested(), before)

    def test_a_capsule_that_ends_while_an_exception_is_under_way(self):
        """operator.index drops its argument after it has raised, as consumers in C do."""
        before = self.requested()
        for version in (None, (1, 0)):
            with self.assertRaisesRegex(TypeError, 'PyCapsule'):
                operator.index(self.gpumem.empty(1000).__dlpack__(max_version=version))
            self.assertEqual(self.requested(), before)

    def test_a_consumer_that_fails_loses_nothing(self):
        """Its error is seen, and the memory ends with what the consumer had."""
        before = self.requested()
        buffer = self.gpumem.empty(1000)
        ended = []

        class Owner:
            pointer, shape, strides, dtype = buffer.pointer, (1000,), None, buffer.dtype

            def __del__(self):
                ended.append(sys.exc_info()[0])
        made = self.dlpack.capsule(Owner(), (2, 0), (1, 0))
        address = self.address(made)
        self.dlpack._set_name(id(made), b'used_dltensor_versioned')
        del made
        gc.collect()
        self.assertEqual(ended, [])
        deleter = self.dlpack._ManagedVersioned.from_address(address).deleter
        thread = threading.Thread(target=self.dlpack._DELETER(deleter), args=(address,))
        thread.start()
        thread.join()
        self.assertEqual(ended, [None])
        del buffer
        self.assertEqual(self.requested(), before)

    def test_consumers_keep_the_memory(self):
        before = self.requested()
        for knows_versions in (False, True):
            exporter = Exporter(self.gpumem.empty((4, 5), 'i2', device=1), knows_versions)
            pointer = exporter.buffer.pointer
            taken = self.gpumem.from_dlpack(exporter)
            del exporter
            gc.collect()
            self.assertEqual(self.gpumem.stats(1).requested_bytes, 40)
            self.assertEqual((taken.pointer, taken.shape, taken.dtype.name, taken.device),
                             (pointer, (4, 5), 'int16', 1))
            del taken
            gc.collect()
            self.assertEqual(self.gpumem.stats(1).requested_bytes, 0)
        self.assertEqual(self.requested(), before)

    def test_a_capsule_is_taken_once(self):
        made = self.gpumem.empty(8).__dlpack__(max_version=(1, 0))
        self.dlpack.Taken(made)
        with self.assertRaises(BufferError):
            self.dlpack.Taken(made)

    def test_read_only_memory_is_refused(self):
        made = self.gpumem.empty(8).__dlpack__(max_version=(1, 0))
        self.dlpack._ManagedVersioned.from_address(self.address(made)).flags = 1
        with self.assertRaises(BufferError):
            self.dlpack.Taken(made)

    def test_strides_are_kept(self):
        buffer = self.gpumem.empty((4, 5), 'f4')
        made = buffer.__dlpack__(max_version=(1, 0))
        managed = self.dlpack._ManagedVersioned.from_address(self.address(made))
        managed.dl_tensor.strides[0] = 10
        managed.dl_tensor.byte_offset = 4

        class Odd(Exporter):
            def __dlpack__(self, **options):
                return made
        taken = self.gpumem.from_dlpack(Odd(buffer))
        self.assertEqual((taken.strides, taken.pointer), ((10, 1), buffer.pointer + 4))
        self.assertEqual(taken.__cuda_array_interface__['strides'], (40, 4))
        with self.assertRaises(ValueError):
            taken.view(20)

    def test_no_elements_have_no_address(self):
        """Nor strides that mean anything, nor an offset."""
        buffer = self.gpumem.empty((4, 5), 'f4')
        for shape in ((0,), (3, 0, 2)):
            empty = buffer.view(shape)
            made = empty.__dlpack__(max_version=(1, 0))
            tensor = self.dlpack._ManagedVersioned.from_address(self.address(made)).dl_tensor
            self.assertEqual((tensor.data, tensor.shape[:len(shape)]), (None, list(shape)))
            self.assertEqual(empty.__cuda_array_interface__['data'], (0, False))
            tensor.byte_offset, tensor.strides[0] = 4, 77

            class Odd(Exporter):
                def __dlpack__(self, made=made, **options):
                    return made
            taken = self.gpumem.from_dlpack(Odd(empty))
            self.assertEqual((taken.shape, taken.strides, taken.pointer), (shape, None, 0))
            self.assertEqual(taken.view(0).nbytes, 0)
        pinned = self.gpumem.pinned(100).view((5, 0))
        self.assertEqual(pinned.__array_interface__['data'], (0, False))

    def test_pinned_memory_comes_back(self):
        buffer = self.gpumem.pinned((10,), 'f8')
        ctypes.memset(buffer.pointer, 3, 80)
        taken = self.gpumem.from_dlpack(buffer)
        self.assertIsInstance(taken, self.gpumem.PinnedBuffer)
        self.assertEqual(ctypes.string_at(taken.pointer, 80), b'\3' * 80)

    def test_what_is_no_gpus_is_refused(self):
        class Host:
            def __dlpack_device__(self):
                return 1, 0
        with self.assertRaises(BufferError):
            self.gpumem.from_dlpack(Host())

    def test_what_a_buffer_does_not_give(self):
        buffer = self.gpumem.empty(8)
        with self.assertRaises(BufferError):
            buffer.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            buffer.__dlpack__(dl_device=(1, 0))
        with self.assertRaises(ValueError):
            buffer.__dlpack__(stream=0)

    def test_streams_are_told(self):
        stream = self.cuda.stream()
        exporter = Exporter(self.gpumem.empty(8))
        self.gpumem.from_dlpack(exporter, stream=stream)
        self.gpumem.from_dlpack(exporter)
        self.assertEqual(exporter.streams, [stream, 1])

    def test_consumers_wait_for_producers(self):
        waits = []
        library = __import__('gpumem')._library.load()
        real = library.stream_wait
        library.stream_wait = lambda *arguments: waits.append(arguments) or real(*arguments)
        try:
            mine, others = self.cuda.stream(), self.cuda.stream()
            buffer = self.gpumem.empty(8, stream=mine)
            for stream in (mine, -1, others, None, 1):
                buffer.__dlpack__(stream=stream)
        finally:
            library.stream_wait = real
        self.assertEqual(waits, [(None, others, mine), (None, None, mine), (None, None, mine)])

    def default_stream_waits(self, make_current):
        """Whether that of device 1 waits for a buffer there, which a thread with another context gives."""
        gate = threading.Event()
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda unused: gate.wait())
        self.cuda.make_current(1)
        mine = self.cuda.stream(1)
        buffer = self.gpumem.empty(8, device=1, stream=mine)
        self.cuda.call('cuLaunchHostFunc', ctypes.c_void_p(mine), function, None)
        try:
            make_current()
            buffer.__dlpack__(stream=1)
            self.cuda.make_current(1)
            return not self.cuda.is_idle(0)
        finally:
            gate.set()
            self.cuda.call('cuCtxSynchronize')
            self.cuda.make_current()

    def test_a_default_stream_is_that_of_the_buffers_device(self):
        self.assertTrue(self.default_stream_waits(lambda: self.cuda.make_current(1)))
        self.assertTrue(self.default_stream_waits(self.cuda.make_current))
        self.assertTrue(self.default_stream_waits(self.cuda.make_nothing_current))


class Exit(unittest.TestCase):
    """Consumers may outlive the interpreter."""

    def test_deleters_are_harmless_at_exit(self):
        program = '''
import ctypes, gpumem
from gpumem import _dlpack
made = gpumem.pinned(8).__dlpack__(max_version=(1, 0))
address = _dlpack._get_pointer(id(made), b"dltensor_versioned")
deleter = ctypes.c_void_p(_dlpack._ManagedVersioned.from_address(address).deleter)
_dlpack._set_name(id(made), b"used_dltensor_versioned")
# exit() calls it when the interpreter has ended.
ctypes.CDLL(None).__cxa_atexit(deleter, ctypes.c_void_p(address), None)
'''
        ran = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True,
                             check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ''))


if __name__ == '__main__':
    unittest.main()
